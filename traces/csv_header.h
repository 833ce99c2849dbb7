// The header line of a CSV trace and the layout that it fits.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "traces/csv_trace_reader.h"

namespace twin {

// The parts of a line between commas.
void SplitCsvLine(std::string_view line, std::vector<std::string_view>& parts);

// One entry a column of the file, in the file's order.
struct CsvHeader {
  const CsvLayout* layout = nullptr;
  std::vector<const CsvColumn*> columns;

  [[nodiscard]] bool Has(ColumnMeaning meaning) const;
};

// Reads the header line. Throws InputError if no layout fits.
CsvHeader ReadCsvHeader(LineReader& lines, std::span<const CsvLayout> layouts);

}  // namespace twin
