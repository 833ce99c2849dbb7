// Cells of a line of a CSV file, quoted ones too.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace twin::run {

// Splits a line (without its line break) at commas outside of quotes; doubled quotes inside of
// quotes are one (RFC 4180). `cells` is replaced; its memory is used again.
void SplitCsvRow(std::string_view line, std::vector<std::string>& cells);

// The whole cell as a number; nothing if it is none, such as an empty cell.
template <class T>
std::optional<T> NumberOfCell(std::string_view cell) {
  T value{};
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc{} || end != cell.data() + cell.size()) return std::nullopt;
  return value;
}

// The cells as a line with its line break, quoted where they have to be.
std::string CsvRow(const std::vector<std::string>& cells);

}  // namespace twin::run
