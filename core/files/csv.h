// Reads CSV files, plain or gzip: record by record, or by the names of their columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/csv.h"
#include "core/files/field.h"
#include "core/files/line_reader.h"
#include "core/letter_case.h"

namespace twin {

// Reads a file record by record. Records without any text, which spreadsheets write after the
// last row, are skipped. The first record determines the separator.
class CsvReader {
 public:
  // Borrows `lines`. The next line is the first of a record.
  explicit CsvReader(LineReader& lines) : lines_(lines) {}

  // Steps to the next record; false at the end. A record over several lines has the number of its
  // last line. Throws InputError for a quote that is never closed, and for text after one.
  bool Next();

  // The record's cells and its text. Both are valid until the next call of Next().
  [[nodiscard]] const std::vector<std::string_view>& cells() const { return cells_.cells(); }
  [[nodiscard]] std::string_view text() const { return record_; }

 private:
  bool ReadRecord();
  void ReadFurtherLines();

  LineReader& lines_;
  CsvCells cells_;
  std::string_view record_;
  std::string lines_of_record_;  // text of a record over several lines
  char separator_ = 0;           // 0 = not known yet
};

// Reads a file whose first record names its columns, row by row. Every error names file, line and
// field.
class CsvTable {
 public:
  // A column's name in other programs, and its name here.
  using Synonym = std::pair<std::string_view, std::string_view>;

  // Borrows the texts of the synonyms. Throws InputError (data) if the file cannot be read, is
  // empty, or lacks a column of `required` or names one twice.
  explicit CsvTable(const std::string& path, const std::vector<std::string_view>& required = {},
                    std::vector<Synonym> synonyms = {});
  CsvTable(const CsvTable&) = delete;
  CsvTable& operator=(const CsvTable&) = delete;

  // Steps to the next row; false at the end. Throws InputError if the row has more or fewer fields
  // than the header.
  bool Next();

  // All columns, as the file names them, and the fields of the row, which are valid until the next
  // call of Next().
  [[nodiscard]] const std::vector<std::string>& columns() const { return columns_; }
  [[nodiscard]] const std::vector<std::string_view>& cells() const { return file_.cells(); }
  // Names the file and the line of the row in errors.
  [[nodiscard]] const LineReader& lines() const { return lines_; }

  [[nodiscard]] bool Has(std::string_view column) const { return Find(column).has_value(); }
  // A field of the row, for the functions of core/files/field.h. REQUIRES, as all functions below:
  // the column is required or Has() it.
  [[nodiscard]] Field At(std::string_view column) const;
  [[nodiscard]] std::string_view Text(std::string_view column) const { return At(column).text; }
  // Throws InputError if the field is no integer within low..high.
  [[nodiscard]] std::int64_t Integer(std::string_view column, std::int64_t low,
                                     std::int64_t high) const {
    return ParseInteger(At(column), low, high);
  }
  // Throws InputError if the field is no number above 0 and up to `high`.
  [[nodiscard]] double Positive(std::string_view column, double high) const;

  // Throws InputError that says that the field must be `allowed`.
  [[noreturn]] void Refuse(std::string_view column, std::string_view allowed) const;

  // The value of the word in the field, in capitals or not, or `otherwise` without such a column or
  // with an empty field. Throws InputError that lists the words.
  template <class E>
  [[nodiscard]] E Word(std::string_view column,
                       const std::vector<std::pair<std::string_view, E>>& words,
                       E otherwise) const {
    if (!Has(column) || Text(column).empty()) return otherwise;
    std::string allowed;
    for (const auto& [word, value] : words) {
      if (EqualsIgnoringCase(word, Text(column))) return value;
      allowed.append(allowed.empty() ? "" : ", ").append(word);
    }
    Refuse(column, allowed);
  }

 private:
  [[nodiscard]] std::optional<std::size_t> Find(std::string_view column) const;

  LineReader lines_;
  CsvReader file_;
  std::vector<std::string> columns_;
  std::vector<Synonym> synonyms_;
};

}  // namespace twin
