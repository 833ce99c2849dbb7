#include "apps/study/csv_row.h"

#include <algorithm>
#include <cstddef>

#include "run/record/metric_table.h"
#include "traces/csv_reader.h"

namespace twin::run {

void SplitCsvRow(std::string_view line, std::vector<std::string>& cells) {
  CsvCells split;
  split.Split(line);
  cells.resize(split.cells().size());
  std::ranges::copy(split.cells(), cells.begin());
}

std::string CsvRow(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += ',';
    line += CsvCell(cells[i]);
  }
  line += '\n';
  return line;
}

}  // namespace twin::run
