// The columns of a run directory's CSV files: their names, units and meaning in one place.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace twin {

struct TableColumn {
  std::string_view name;
  std::string_view unit;  // empty: a number without one, or a word
  std::string_view what;
};

std::span<const TableColumn> RequestColumns();  // requests.csv
// Further columns of requests.csv if the system has a boundary.
std::span<const TableColumn> BoundaryColumns();
std::span<const TableColumn> StepColumns();  // steps.csv
// Further columns of requests.csv, steps.csv and parts.csv if the system has several replicas.
std::span<const TableColumn> ReplicaColumns();
std::span<const TableColumn> SeriesColumns(bool power);  // series.csv
std::span<const TableColumn> PartColumns();              // parts.csv

// Columns that a run's tables have beside the columns of every run.
struct FurtherColumns {
  bool boundary = false;  // BoundaryColumns(), of requests
  bool replica = false;   // ReplicaColumns(), of requests, steps and parts
};

// All columns of a run's requests.csv, steps.csv and parts.csv.
std::vector<TableColumn> RequestColumns(const FurtherColumns& further);
std::vector<TableColumn> StepColumns(const FurtherColumns& further);
std::vector<TableColumn> PartColumns(const FurtherColumns& further);

// The first line of the file, with its line break.
std::string HeaderLine(std::span<const TableColumn> columns);

}  // namespace twin
