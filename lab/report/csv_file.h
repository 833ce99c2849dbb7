// A CSV file in memory, by column.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace twin::lab {

class CsvFile {
 public:
  // Throws InputError (data) if the file cannot be read, is empty, or a row has another number of
  // cells than the header.
  explicit CsvFile(const std::filesystem::path& path);

  [[nodiscard]] const std::vector<std::string>& header() const { return header_; }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] bool Has(std::string_view column) const;
  // Cells of a column; empty if the file has no such column.
  [[nodiscard]] std::vector<std::string> Texts(std::string_view column) const;
  // NaN for cells that are no numbers; empty if the file has no such column.
  [[nodiscard]] std::vector<double> Numbers(std::string_view column) const;

 private:
  [[nodiscard]] std::size_t Place(std::string_view column) const;

  std::vector<std::string> header_;
  std::vector<std::string> cells_;  // row by row
  std::size_t rows_ = 0;
};

}  // namespace twin::lab
