// Ordinary kriging: the best linear unbiased interpolation between scattered points, if the
// covariance of their values is known (Cressie, Statistics for Spatial Data, 1993, section 3.2).
//
// The value at a target is a weighted mean of the values at its neighbours. Weights follow from the
// covariances between the neighbours and with the target; they add up to 1, so that an unknown mean
// drops out. A nugget, the variance of noise in each value, keeps the interpolation from following
// every outlier. The variance grows with the distance to the neighbours.
#pragma once

#include <array>
#include <cstddef>
#include <functional>

namespace twin::sim {

inline constexpr std::size_t kKrigingPointsMax = 24;

struct KrigingWeights {
  std::size_t count = 0;
  std::array<std::size_t, kKrigingPointsMax> points{};  // indices of the neighbours
  std::array<double, kKrigingPointsMax> weights{};      // their sum is 1
  double variance = 0;  // in units of the covariance of a point with itself
};

struct KrigingRules {
  std::size_t neighbours = 16;  // points that count: the ones of the largest covariance
  double nugget = 0;
};

// `points` candidates, of which `excluded` (an index, or `points` for none) is left out.
// `to_target(i)` and `between(i, j)` are covariances; that of a point with itself is 1.
// REQUIRES: at least one candidate remains; 1 <= rules.neighbours <= kKrigingPointsMax.
KrigingWeights Krige(std::size_t points, std::size_t excluded, const KrigingRules& rules,
                     const std::function<double(std::size_t)>& to_target,
                     const std::function<double(std::size_t, std::size_t)>& between);

}  // namespace twin::sim
