// The columns of a run directory's CSV files: their names, units and meaning in one place.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace twin {

struct CsvColumn {
  std::string_view name;
  std::string_view unit;  // empty: a number without one, or a word
  std::string_view what;
};

std::span<const CsvColumn> RequestColumns();  // requests.csv
std::span<const CsvColumn> StepColumns();     // steps.csv
std::span<const CsvColumn> SeriesColumns();   // series.csv
std::span<const CsvColumn> PartColumns();     // parts.csv

// The first line of the file, with its line break.
std::string HeaderLine(std::span<const CsvColumn> columns);

}  // namespace twin
