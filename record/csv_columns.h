// The columns of a run directory's CSV files: their names, units and meaning in one place.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace twin {

struct TableColumn {
  std::string_view name;
  std::string_view unit;  // empty: a number without one, or a word
  std::string_view what;
};

std::span<const TableColumn> RequestColumns();  // requests.csv
// Further ones of requests.csv where the system has a boundary.
std::span<const TableColumn> BoundaryColumns();
std::span<const TableColumn> StepColumns();    // steps.csv
std::span<const TableColumn> SeriesColumns();  // series.csv
std::span<const TableColumn> PartColumns();    // parts.csv

// The first line of the file, with its line break.
std::string HeaderLine(std::span<const TableColumn> columns);

}  // namespace twin
