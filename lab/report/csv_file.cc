#include "lab/report/csv_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "core/input_error.h"
#include "lab/study/csv_row.h"

namespace twin::lab {

CsvFile::CsvFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string line;
  if (!std::getline(in, line)) {
    throw InputError(InputError::Kind::kData, path.string(), "is empty or cannot be read");
  }
  SplitCsvRow(line, header_);
  std::vector<std::string> cells;
  while (std::getline(in, line)) {
    SplitCsvRow(line, cells);
    if (cells.size() != header_.size()) {
      throw InputError(
          InputError::Kind::kData, fmt::format("{}:{}", path.string(), rows_ + 2),
          fmt::format("has {} cells; allowed: {}, as the header", cells.size(), header_.size()));
    }
    cells_.insert(cells_.end(), cells.begin(), cells.end());
    ++rows_;
  }
}

std::size_t CsvFile::Place(std::string_view column) const {
  return static_cast<std::size_t>(std::ranges::find(header_, column) - header_.begin());
}

bool CsvFile::Has(std::string_view column) const { return Place(column) < header_.size(); }

std::vector<std::string> CsvFile::Texts(std::string_view column) const {
  std::vector<std::string> texts;
  const std::size_t place = Place(column);
  if (place == header_.size()) return texts;
  for (std::size_t row = 0; row < rows_; ++row) {
    texts.push_back(cells_[row * header_.size() + place]);
  }
  return texts;
}

std::vector<double> CsvFile::Numbers(std::string_view column) const {
  std::vector<double> numbers;
  for (const std::string& text : Texts(column)) {
    numbers.push_back(
        NumberOfCell<double>(text).value_or(std::numeric_limits<double>::quiet_NaN()));
  }
  return numbers;
}

}  // namespace twin::lab
