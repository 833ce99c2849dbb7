// Reads the records of CSV files as RFC 4180 has them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/line_reader.h"

namespace twin {

// The cells of one record. A cell in quotes may hold separators, line breaks, and quotes that are
// written twice.
class CsvCells {
 public:
  enum class Result : std::uint8_t {
    kSplit,
    // Broken off at the last of cells(), which is as it stands in the record:
    kOpenQuote,    // the record ends within quotes
    kBehindQuote,  // the cell goes on behind its closing quote
  };

  // Replaces the cells. They refer to `record` and to this.
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

// Reads a file record by record. Records without any text, which spreadsheets write behind the
// last row, are skipped. The first record determines the separator.
class CsvReader {
 public:
  // Borrows `lines`. The next line is the first of a record.
  explicit CsvReader(LineReader& lines) : lines_(lines) {}

  // Steps to the next record; false at the end. A record over several lines has the number of its
  // last line. Throws InputError for a quote that is never closed, and for text behind one.
  bool Next();

  // Both are valid until the next call of Next().
  [[nodiscard]] const std::vector<std::string_view>& cells() const { return cells_.cells(); }
  [[nodiscard]] std::string_view text() const { return record_; }

 private:
  bool ReadRecord();
  void ReadFurtherLines();

  LineReader& lines_;
  CsvCells cells_;
  std::string_view record_;
  std::string lines_of_record_;  // of a record over several lines
  char separator_ = 0;           // 0 = not known yet
};

}  // namespace twin
