#include "traces/csv_reader.h"

#include <algorithm>

#include "core/input_error.h"
#include "core/printable.h"

namespace twin {
namespace {

constexpr std::string_view kSeparators = ",;\t|";

// True if a record that is within quotes where `line` begins still is where it ends.
bool StaysInQuotes(std::string_view line, char separator) {
  std::size_t from = 0;
  while (true) {
    const std::size_t quote = line.find('"', from);
    if (quote == std::string_view::npos) return true;
    from = quote + 1;
    if (from < line.size() && line[from] == '"') {
      ++from;
      continue;
    }
    do {  // to the next cell in quotes
      from = line.find(separator, from);
      if (from == std::string_view::npos) return false;
      ++from;
    } while (from >= line.size() || line[from] != '"');
    ++from;
  }
}

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

// Takes a cell up to the separator behind it.
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
  return Result::kBehindQuote;
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

bool CsvReader::Next() {
  do {
    if (!ReadRecord()) return false;
  } while (cells().size() > 1 && cells().front().empty() &&
           std::ranges::all_of(cells(), &std::string_view::empty));
  return true;
}

bool CsvReader::ReadRecord() {
  if (!lines_.Next(record_)) return false;
  if (separator_ == 0) separator_ = CsvSeparator(record_);
  CsvCells::Result result = cells_.Split(record_, separator_);
  if (result == CsvCells::Result::kOpenQuote) {
    ReadFurtherLines();
    result = cells_.Split(record_, separator_);
  }
  if (result == CsvCells::Result::kBehindQuote) {
    lines_.RefuseField("row", cells().back(), "nothing behind the closing quote of a cell");
  }
  return true;
}

// Extends the record to the line that closes its quotes.
void CsvReader::ReadFurtherLines() {
  const std::int64_t first_line = lines_.line_number();
  lines_of_record_ = record_;
  std::string_view line;
  do {
    if (lines_of_record_.size() > LineReader::kLineBytesMax || !lines_.Next(line)) {
      throw InputError(InputError::Kind::kData, lines_.name() + ":" + std::to_string(first_line),
                       "row: found '" + Printable(lines_of_record_) +
                           "', whose quote is never closed; allowed: a quote at both ends of a "
                           "cell, and quotes within it twice");
    }
    lines_of_record_.append("\n").append(line);
  } while (StaysInQuotes(line, separator_));
  record_ = lines_of_record_;
}

}  // namespace twin
