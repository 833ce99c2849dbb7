#include "apps/report/csv_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "core/check.h"
#include "core/files/csv.h"
#include "core/files/input_file.h"
#include "core/input_error.h"
#include "core/number_text.h"
#include "core/printable.h"

namespace twin::run {

CsvFile::CsvFile(const std::filesystem::path& path) : path_(path) {
  RequireRegularFile(path);
  CsvTable table(path.string());
  header_ = table.columns();
  while (table.Next()) {
    cells_.insert(cells_.end(), table.cells().begin(), table.cells().end());
    lines_.push_back(table.lines().line_number());
  }
}

CsvFile::CsvFile(std::filesystem::path name, std::vector<std::string> header,
                 const std::vector<std::vector<std::string>>& rows)
    : path_(std::move(name)), header_(std::move(header)) {
  for (const std::vector<std::string>& row : rows) {
    CHECK(row.size() == header_.size());
    cells_.insert(cells_.end(), row.begin(), row.end());
    lines_.push_back(static_cast<std::int64_t>(lines_.size()) + 2);  // as below a header
  }
}

std::size_t CsvFile::Place(std::string_view column) const {
  return static_cast<std::size_t>(std::ranges::find(header_, column) - header_.begin());
}

bool CsvFile::Has(std::string_view column) const { return Place(column) < header_.size(); }

std::vector<std::string> CsvFile::Texts(std::string_view column) const {
  const std::size_t place = Place(column);
  if (place == header_.size()) {
    throw InputError(InputError::Kind::kData, path_.string(),
                     fmt::format("has no column {}; it was cut or changed after the run", column));
  }
  std::vector<std::string> texts;
  for (std::size_t row = 0; row < rows(); ++row) {
    texts.push_back(cells_[row * header_.size() + place]);
  }
  return texts;
}

std::vector<double> CsvFile::Numbers(std::string_view column) const {
  std::vector<double> numbers;
  for (const std::string& text : Texts(column)) {
    const std::optional<double> number = NumberFrom<double>(text);
    if (!text.empty() && !(number && std::isfinite(*number))) {
      RefuseCell(numbers.size(), column, text, "a number, or an empty cell");
    }
    numbers.push_back(number.value_or(std::numeric_limits<double>::quiet_NaN()));
  }
  return numbers;
}

std::vector<double> CsvFile::Times(std::string_view column) const {
  std::vector<double> times = Numbers(column);
  const auto bad = std::ranges::find_if(times, [](double time) { return !(time >= 0); });
  if (bad != times.end()) {
    const auto row = static_cast<std::size_t>(bad - times.begin());
    RefuseCell(row, column, Texts(column)[row], "a number of at least 0");
  }
  return times;
}

void CsvFile::RefuseCell(std::size_t row, std::string_view column, std::string_view cell,
                         std::string_view allowed) const {
  throw InputError(InputError::Kind::kData, fmt::format("{}:{}", path_.string(), lines_[row]),
                   fmt::format("{}: found \"{}\"; allowed: {}", column, Printable(cell), allowed));
}

}  // namespace twin::run
