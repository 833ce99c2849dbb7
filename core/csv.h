// Splits and writes lines of CSV as RFC 4180 defines them. core/files/csv.h reads whole files.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "core/number_text.h"
#include "core/time.h"

namespace twin {

// The cells of one record. A cell in quotes may hold separators, line breaks, and quotes that are
// written twice.
class CsvCells {
 public:
  enum class Result : std::uint8_t {
    kSplit,
    // Broken off at the last of cells(), which is left as it stands in the record:
    kOpenQuote,   // the record ends within quotes
    kAfterQuote,  // the cell goes on after its closing quote
  };

  // Replaces the cells. They refer to `record` and to this object.
  Result Split(std::string_view record, char separator = ',');

  [[nodiscard]] const std::vector<std::string_view>& cells() const { return cells_; }

 private:
  Result TakeQuoted(std::string_view& rest, char separator);

  std::vector<std::string_view> cells_;
  std::string unquoted_;  // the texts of cells with doubled quotes
};

// The separator of a file with this header: the most frequent of , ; tab and | outside of quotes.
char CsvSeparator(std::string_view header);

// The first name that occurs twice; empty if none does. Cost: n log n.
std::string_view RepeatedName(const std::vector<std::string_view>& names);

// Appends a cell, in quotes if it needs them.
void AppendCsvCell(std::string& line, std::string_view text);

// The cells as a line with its line break.
std::string CsvRow(const std::vector<std::string>& cells);

// One line, built cell by cell without allocation once it has reached its length.
class CsvLine {
 public:
  CsvLine& Count(std::integral auto count) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, count);
    line_.append(digits, end.ptr).push_back(',');
    return *this;
  }
  CsvLine& Word(std::string_view word) {
    AppendCsvCell(line_, word);
    line_.push_back(',');
    return *this;
  }
  CsvLine& Number(double value) { return Word(RoundedText(value, 9)); }
  CsvLine& Seconds(TimePoint time) { return Decimal(Nanoseconds(time), 9); }
  CsvLine& Milliseconds(Duration duration) { return Decimal(duration.count(), 6); }
  CsvLine& Nothing() { return Word(""); }

  // Writes the line with its line break and starts a new one. REQUIRES: at least one cell.
  void WriteTo(std::ostream& out) {
    const std::string_view line = End();
    out.write(line.data(), static_cast<std::streamsize>(line.size()));
    line_.clear();
  }
  // Appends the line with its line break to `text` and starts a new one.
  void AppendTo(std::string& text) {
    text += End();
    line_.clear();
  }

 private:
  CsvLine& Decimal(std::int64_t value, int digits) {
    AppendDecimal(line_, value, digits);
    line_.push_back(',');
    return *this;
  }
  std::string_view End() {
    line_.back() = '\n';
    return line_;
  }

  std::string line_;
};

}  // namespace twin
