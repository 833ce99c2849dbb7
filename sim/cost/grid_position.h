// Where a value lies between the points of a grid, for linear interpolation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace twin::sim {

// Between the points `low` and `high`, which are the same one beyond either end of the grid.
struct GridPosition {
  std::size_t low = 0;
  std::size_t high = 0;
  double share = 0;  // of `high`

  // Linear between the points, constant beyond. REQUIRES: as many values as points.
  [[nodiscard]] double In(const std::vector<double>& values) const {
    return values[low] + share * (values[high] - values[low]);
  }
};

// REQUIRES: the grid is not empty and ascends.
inline GridPosition Locate(const std::vector<double>& grid, double value) {
  if (value <= grid.front()) return {0, 0, 0};
  if (value >= grid.back()) return {grid.size() - 1, grid.size() - 1, 0};
  const auto high = static_cast<std::size_t>(std::ranges::upper_bound(grid, value) - grid.begin());
  return {high - 1, high, (value - grid[high - 1]) / (grid[high] - grid[high - 1])};
}

}  // namespace twin::sim
