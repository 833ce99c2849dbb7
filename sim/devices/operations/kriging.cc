#include "sim/devices/operations/kriging.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/check.h"

namespace twin::sim {
namespace {

// One row and column more than neighbours for the condition that weights add up to 1, and a column
// for the right side.
constexpr std::size_t kOrderMax = kKrigingPointsMax + 1;
using System = std::array<std::array<double, kOrderMax + 1>, kOrderMax>;

// Solves the first `order` rows in place by elimination with pivots; column `order` is the right
// side, and in the end the solution.
void Solve(System& a, std::size_t order) {
  for (std::size_t i = 0; i < order; ++i) {
    std::size_t pivot = i;
    for (std::size_t j = i + 1; j < order; ++j) {
      if (std::abs(a[j][i]) > std::abs(a[pivot][i])) pivot = j;
    }
    if (pivot != i) std::swap(a[i], a[pivot]);
    const double* const __restrict from = a[i].data();
    for (std::size_t j = 0; j < order; ++j) {
      if (j == i || a[j][i] == 0) continue;
      double* const __restrict row = a[j].data();
      const double factor = row[i] / from[i];
      // Column i is not read again.
      for (std::size_t column = i + 1; column <= order; ++column) {
        row[column] -= factor * from[column];
      }
    }
  }
  for (std::size_t i = 0; i < order; ++i) a[i][order] /= a[i][i];
}

}  // namespace

KrigingWeights Krige(std::size_t points, std::size_t excluded, const KrigingRules& rules,
                     const std::function<double(std::size_t)>& to_target,
                     const std::function<double(std::size_t, std::size_t)>& between) {
  std::vector<std::pair<double, std::size_t>> candidates;
  candidates.reserve(points);
  for (std::size_t i = 0; i < points; ++i) {
    if (i != excluded) candidates.emplace_back(-to_target(i), i);
  }
  CHECK(!candidates.empty());
  KrigingWeights result;
  result.count = std::min(rules.neighbours, candidates.size());
  std::partial_sort(candidates.begin(),
                    candidates.begin() + static_cast<std::ptrdiff_t>(result.count),
                    candidates.end());
  System a{};
  const std::size_t count = result.count;
  for (std::size_t i = 0; i < count; ++i) {
    result.points[i] = candidates[i].second;
    for (std::size_t j = 0; j < i; ++j) {
      a[i][j] = a[j][i] = between(result.points[i], result.points[j]);
    }
    a[i][i] = 1 + rules.nugget;
    a[i][count] = a[count][i] = 1;
    a[i][count + 1] = -candidates[i].first;
  }
  a[count][count + 1] = 1;
  Solve(a, count + 1);
  result.variance = 1 - a[count][count + 1];
  for (std::size_t i = 0; i < count; ++i) {
    result.weights[i] = a[i][count + 1];
    result.variance += result.weights[i] * candidates[i].first;
  }
  result.variance = std::max(0.0, result.variance);
  return result;
}

}  // namespace twin::sim
