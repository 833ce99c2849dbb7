// Matches the header line of a CSV trace to a layout.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/csv.h"
#include "traces/csv_trace_reader.h"

namespace twin {

// One entry per column of the file, in the file's order.
struct CsvHeader {
  const CsvLayout* layout = nullptr;
  std::vector<const CsvColumn*> columns;

  [[nodiscard]] bool Has(ColumnMeaning meaning) const;
  // Its number where the layout does not know the column.
  [[nodiscard]] std::string NameOf(std::size_t column) const;
};

// Reads the header, the first record of `file`, whose errors name a line of `lines`. Throws
// InputError if no layout matches.
CsvHeader ReadCsvHeader(CsvReader& file, const LineReader& lines,
                        std::span<const CsvLayout> layouts);

}  // namespace twin
