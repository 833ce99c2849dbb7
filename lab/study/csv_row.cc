#include "lab/study/csv_row.h"

#include <cstddef>

#include "record/metric_table.h"

namespace twin::lab {

void SplitCsvRow(std::string_view line, std::vector<std::string>& cells) {
  std::size_t used = 0;
  std::string* cell = nullptr;
  const auto open = [&] {
    if (used == cells.size()) cells.emplace_back();
    cell = &cells[used++];
    cell->clear();
  };
  open();
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      cell->push_back('"');
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      open();
    } else {
      cell->push_back(c);
    }
  }
  cells.resize(used);
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

}  // namespace twin::lab
