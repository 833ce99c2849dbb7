// Matches the header line of a CSV trace to a layout.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "traces/csv_trace_reader.h"

namespace twin {

// Splits a line at commas into `parts`, which refer to `line`.
void SplitCsvLine(std::string_view line, std::vector<std::string_view>& parts);

// One entry per column of the file, in the file's order.
struct CsvHeader {
  const CsvLayout* layout = nullptr;
  std::vector<const CsvColumn*> columns;

  [[nodiscard]] bool Has(ColumnMeaning meaning) const;
  // Its number where the layout does not know the column.
  [[nodiscard]] std::string NameOf(std::size_t column) const;
};

// Reads the header line. Throws InputError if no layout matches.
CsvHeader ReadCsvHeader(LineReader& lines, std::span<const CsvLayout> layouts);

}  // namespace twin
