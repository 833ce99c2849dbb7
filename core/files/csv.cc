#include "core/files/csv.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/check.h"
#include "core/csv.h"
#include "core/input_error.h"
#include "core/printable.h"

namespace twin {
namespace {

// True if a record that is within quotes at the begin of `line` still is at its end.
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
  if (result == CsvCells::Result::kAfterQuote) {
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

CsvTable::CsvTable(const std::string& path, const std::vector<std::string_view>& required,
                   std::vector<Synonym> synonyms)
    : lines_(path), file_(lines_), synonyms_(std::move(synonyms)) {
  const std::string needed =
      required.empty() ? "a line that names the columns"
                       : fmt::format("the columns {}, and others", fmt::join(required, ", "));
  if (!file_.Next()) {
    lines_.Refuse(fmt::format("header: the file is empty; allowed: {}", needed));
  }
  const std::string_view repeated = RepeatedName(file_.cells());
  if (!repeated.empty()) lines_.RefuseField("header", repeated, "each column once");
  columns_.assign(file_.cells().begin(), file_.cells().end());
  for (const std::string_view name : required) {
    if (!Has(name)) {
      lines_.Refuse(fmt::format("header: column '{}' is missing; allowed: {}", name, needed));
    }
  }
}

bool CsvTable::Next() {
  if (!file_.Next()) return false;
  if (cells().size() != columns_.size()) {
    lines_.Refuse(fmt::format("row: has {} fields; allowed: {}, as the header", cells().size(),
                              columns_.size()));
  }
  return true;
}

std::optional<std::size_t> CsvTable::Find(std::string_view column) const {
  const auto place = [this](std::string_view name) {
    return static_cast<std::size_t>(std::ranges::find(columns_, name) - columns_.begin());
  };
  if (const std::size_t own = place(column); own < columns_.size()) return own;
  for (const auto& [elsewhere, here] : synonyms_) {
    if (here != column) continue;
    if (const std::size_t other = place(elsewhere); other < columns_.size()) return other;
  }
  return std::nullopt;
}

Field CsvTable::At(std::string_view column) const {
  const std::optional<std::size_t> place = Find(column);
  CHECK(place);
  return {lines_, column, cells()[*place]};
}

double CsvTable::Positive(std::string_view column, double high) const {
  const double value = ParseReal(At(column), 0, high);
  if (value == 0) Refuse(column, "a number above 0");
  return value;
}

void CsvTable::Refuse(std::string_view column, std::string_view allowed) const {
  lines_.RefuseField(column, Text(column), allowed);
}

}  // namespace twin
