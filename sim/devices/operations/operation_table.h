// Rows of an OperationTable as text, and surfaces of log ratios made of them.
//
// A row is "SIZE SIZE ...:", the sizes of a shape, and then words, each after a blank: one for each
// pair of sizes on the first two axes, the second one running faster. A word has a character for
// each size on the third axis, as in EncodeGemmCurve; '!' and trailing characters that are left out
// were not measured. Trailing words without a character are left out.
//
// Calls that were not measured take the ratio of the nearest one that was.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/grid_position.h"
#include "sim/devices/operations/operation_profile.h"

namespace twin::sim {

inline constexpr double kNoMeasurement = std::numeric_limits<double>::quiet_NaN();

struct OperationRow {
  std::vector<double> shape;
  // Ratios of all calls of the grid, the third axis running fastest; NaN where nothing was
  // measured.
  std::vector<double> log_ratios;
};

// REQUIRES: as many ratios as the grid has calls.
[[nodiscard]] std::string PrintOperationRow(const OperationRow& row, const OperationGrid& grid);
// Throws InputError (usage) for a malformed row.
[[nodiscard]] OperationRow ParseOperationRow(std::string_view text, const OperationGrid& grid);
// The sizes alone, without the ratios.
[[nodiscard]] std::vector<double> ShapeOfRow(std::string_view text);

// Log ratios over the grid of one shape. Thread-safe.
class OperationSurface {
 public:
  OperationSurface() = default;
  // REQUIRES: one ratio or more is a number.
  OperationSurface(const OperationGrid& grid, std::vector<double> log_ratios);

  // Adds `weight` times another surface of the same grid.
  void Add(const OperationSurface& other, double weight);
  // Linear in the logarithms of the sizes, constant beyond the grid.
  [[nodiscard]] double At(double first, double second, double third) const;

 private:
  std::vector<double> axes_[3];  // log2
  std::vector<double> values_;
};

}  // namespace twin::sim
