#include "core/csv.h"

#include <algorithm>

namespace twin {
namespace {

constexpr std::string_view kSeparators = ",;\t|";

}  // namespace

CsvCells::Result CsvCells::Split(std::string_view record, char separator) {
  cells_.clear();
  unquoted_.clear();
  unquoted_.reserve(record.size());  // the cells refer to it
  std::string_view rest = record;
  while (true) {
    if (rest.starts_with('"')) {
      const Result result = TakeQuoted(rest, separator);
      if (result != Result::kSplit) return result;
    } else {
      const std::size_t end = std::min(rest.find(separator), rest.size());
      cells_.push_back(rest.substr(0, end));
      rest.remove_prefix(end);
    }
    if (rest.empty()) return Result::kSplit;
    rest.remove_prefix(1);
  }
}

// Takes a cell up to the separator after it.
CsvCells::Result CsvCells::TakeQuoted(std::string_view& rest, char separator) {
  const std::string_view cell = rest;
  const std::size_t begin = unquoted_.size();
  std::size_t from = 1;
  while (true) {
    const std::size_t quote = cell.find('"', from);
    if (quote == std::string_view::npos) {
      cells_.push_back(cell);
      return Result::kOpenQuote;
    }
    unquoted_.append(cell, from, quote - from);
    from = quote + 1;
    if (from == cell.size() || cell[from] != '"') break;
    unquoted_.push_back('"');
    ++from;
  }
  cells_.push_back(std::string_view(unquoted_).substr(begin));
  rest.remove_prefix(from);
  if (rest.empty() || rest.front() == separator) return Result::kSplit;
  cells_.back() = cell.substr(0, cell.find(separator, from));
  return Result::kAfterQuote;
}

char CsvSeparator(std::string_view header) {
  std::vector<std::int64_t> counts(kSeparators.size());
  bool quoted = false;
  for (const char c : header) {
    if (c == '"') quoted = !quoted;
    const std::size_t place = kSeparators.find(c);
    if (!quoted && place != std::string_view::npos) ++counts[place];
  }
  return kSeparators[static_cast<std::size_t>(std::max_element(counts.begin(), counts.end()) -
                                              counts.begin())];
}

std::string_view RepeatedName(const std::vector<std::string_view>& names) {
  std::vector<std::string_view> sorted = names;
  std::ranges::sort(sorted);
  const auto found = std::ranges::adjacent_find(sorted);
  return found == sorted.end() ? std::string_view() : *found;
}

void AppendCsvCell(std::string& line, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    line += text;
    return;
  }
  line += '"';
  for (const char c : text) {
    if (c == '"') line += '"';
    line += c;
  }
  line += '"';
}

std::string CsvRow(const std::vector<std::string>& cells) {
  std::string row;
  CsvLine line;
  for (const std::string& cell : cells) line.Word(cell);
  line.AppendTo(row);
  return row;
}

}  // namespace twin
