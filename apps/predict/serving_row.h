// One deployment of a table: a model, a server, devices, and the load of its measurement.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/csv.h"

namespace twin::run {

// The cells of a row by the names of their columns, spaces around them removed. Columns that a
// table lacks read as empty cells, and an empty cell leaves the choice to the server.
class ServingRow {
 public:
  // Columns that every table has: id, model, engine, device, isl, osl, concurrency, tp.
  static const std::vector<std::string_view>& RequiredColumns();
  // All columns that have a meaning here; others are ignored.
  static const std::vector<std::string_view>& Columns();

  ServingRow() = default;
  // Reads the current row of the table.
  explicit ServingRow(const CsvTable& table);
  explicit ServingRow(std::map<std::string, std::string, std::less<>> cells)
      : cells_(std::move(cells)) {}

  [[nodiscard]] const std::string& Text(std::string_view column) const;
  [[nodiscard]] bool Has(std::string_view column) const { return !Text(column).empty(); }
  // A whole number in low..high; nullopt for an empty cell. Throws InputError (data) with the
  // column. So do all functions below.
  [[nodiscard]] std::optional<std::int64_t> Count(std::string_view column, std::int64_t low = 0,
                                                  std::int64_t high = 1'000'000'000) const;
  // As Count, from 1 on. Throws for an empty cell, too.
  [[nodiscard]] std::int64_t RequiredCount(std::string_view column) const;
  // A number above 0 and up to `high`.
  [[nodiscard]] std::optional<double> Share(std::string_view column, double high = 1) const;

  // Replaces a cell.
  void Set(std::string_view column, std::string text) {
    cells_[std::string(column)] = std::move(text);
  }

  // The flags of the column `server`, "flag=value;flag=value", by name. Leading dashes do not
  // count, others are underscores; the last one of a name holds.
  [[nodiscard]] std::map<std::string, std::string> Flags() const;

  // Describes the row completely, for comparisons.
  [[nodiscard]] std::string Key() const;

 private:
  std::map<std::string, std::string, std::less<>> cells_;
};

// A whole number in low..high. Throws InputError (data) that names `where`.
std::int64_t WholeNumber(std::string_view where, std::string_view text, std::int64_t low,
                         std::int64_t high);
// A number above 0 and up to `high`. Throws as WholeNumber.
double NumberAbove0(std::string_view where, std::string_view text, double high);

}  // namespace twin::run
