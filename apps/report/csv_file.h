// A CSV file in memory, by column.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace twin::run {

class CsvFile {
 public:
  // Throws InputError (data) as CsvTable does (core/files/csv.h), and if `path` is no regular file.
  explicit CsvFile(const std::filesystem::path& path);

  // A table that was made: `name` is for errors. REQUIRES: rows as long as the header.
  CsvFile(std::filesystem::path name, std::vector<std::string> header,
          const std::vector<std::vector<std::string>>& rows);

  [[nodiscard]] const std::vector<std::string>& header() const { return header_; }
  [[nodiscard]] std::size_t rows() const { return lines_.size(); }
  [[nodiscard]] bool Has(std::string_view column) const;
  // Cells of a column. Throws InputError (data) if the file has no such column.
  [[nodiscard]] std::vector<std::string> Texts(std::string_view column) const;
  // NaN for empty cells. Throws InputError (data) if the file has no such column, or a cell is
  // neither empty nor a finite number.
  [[nodiscard]] std::vector<double> Numbers(std::string_view column) const;
  // Numbers() of a column that each row has, such as the time of its arrival: also refuses empty
  // cells and numbers below 0.
  [[nodiscard]] std::vector<double> Times(std::string_view column) const;

 private:
  [[nodiscard]] std::size_t Place(std::string_view column) const;
  [[noreturn]] void RefuseCell(std::size_t row, std::string_view column, std::string_view cell,
                               std::string_view allowed) const;

  std::filesystem::path path_;
  std::vector<std::string> header_;
  std::vector<std::string> cells_;   // row by row
  std::vector<std::int64_t> lines_;  // in the file, by row
};

}  // namespace twin::run
