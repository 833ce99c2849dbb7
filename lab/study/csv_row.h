// Cells of a line of a CSV file, quoted ones too.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twin::lab {

// Splits a line (without its line break) at commas outside of quotes; doubled quotes inside of
// quotes are one (RFC 4180). `cells` is replaced; its memory is used again.
void SplitCsvRow(std::string_view line, std::vector<std::string>& cells);

// The cells as a line with its line break, quoted where they have to be.
std::string CsvRow(const std::vector<std::string>& cells);

}  // namespace twin::lab
