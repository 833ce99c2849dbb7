// A table of operations: a CSV file, plain or gzip, with one operation per row, and its copy with
// further columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/letter_case.h"
#include "traces/csv_reader.h"
#include "traces/line_reader.h"

namespace twin::run {

// The columns that predictions add: median and 90 % interval, in microseconds.
const std::vector<std::string_view>& PredictedColumns();

// Reads row by row. Every error names file, line and field.
class OperationTable {
 public:
  // A column's name in other programs, and the one it goes by here.
  using Synonym = std::pair<std::string_view, std::string_view>;

  // `added`: columns that the copy gets; the table's own of these names are left out of it. Throws
  // InputError (data) if the file cannot be read, is empty, or lacks a column of `required` or
  // names one twice.
  OperationTable(const std::string& path, const std::vector<std::string_view>& required,
                 const std::vector<std::string_view>& added = {},
                 const std::vector<Synonym>& synonyms = {});

  // Steps to the next row; false at the end. Throws InputError if the row has more or fewer fields
  // than the header.
  bool Next();

  // The header and the row without the columns that the copy gets, with a comma behind each field.
  [[nodiscard]] const std::string& header() const { return header_; }
  [[nodiscard]] std::string line() const { return Kept(file_.cells()); }

  // A field of the row. REQUIRES: the column is required or Has() it.
  [[nodiscard]] std::string_view Text(std::string_view column) const;
  [[nodiscard]] bool Has(std::string_view column) const;
  // Throws InputError if the field is no integer within low..high.
  [[nodiscard]] std::int64_t Integer(std::string_view column, std::int64_t low,
                                     std::int64_t high) const;

  // Throws InputError if the field is no number above 0 and up to `high`.
  [[nodiscard]] double Positive(std::string_view column, double high) const;

  // Throws InputError that the field must be `allowed`.
  [[noreturn]] void Refuse(std::string_view column, std::string_view allowed) const;

  // The value of the word in the field, in capitals or not, or `otherwise` without such a column or
  // with an empty field. Throws InputError that lists the words.
  template <class E>
  [[nodiscard]] E Word(std::string_view column,
                       const std::vector<std::pair<std::string_view, E>>& words,
                       E otherwise) const {
    if (!Has(column) || Text(column).empty()) return otherwise;
    std::vector<std::string_view> allowed;
    for (const auto& [word, value] : words) {
      if (EqualsIgnoringCase(word, Text(column))) return value;
      allowed.push_back(word);
    }
    RefuseWord(column, allowed);
  }

 private:
  [[nodiscard]] std::optional<std::size_t> Find(std::string_view column) const;
  [[noreturn]] void RefuseWord(std::string_view column,
                               const std::vector<std::string_view>& allowed) const;

  // The fields that the copy keeps, with a comma behind each.
  [[nodiscard]] std::string Kept(const std::vector<std::string_view>& fields) const;

  LineReader lines_;
  CsvReader file_;
  std::vector<std::string> columns_;
  std::vector<bool> kept_;  // by column
  std::string header_;
};

}  // namespace twin::run
