// Interpolates the curves of a table of matrix products between measured (n, k).
//
// Ordinary kriging (kriging.h) of each m by itself, as GemmTable::between_shapes says:
//
//   near      The covariance falls with the distance, faster along n, which decides the number of
//             tiles, than along k.
//   additive  A part of the covariance is one of n alone plus one of k alone.
//   pooled    Libraries call kernels of one vendor, and each library's times have noise of their
//             own. So the median of all libraries' curves is interpolated as in `additive`, and
//             what the table's own curves differ from it is added, interpolated with a third of its
//             variance taken for noise (co-kriging, as the autoregressive model of Kennedy and
//             O'Hagan, Biometrika 87, 2000, with a factor of 1).
//
// Beyond the largest n and k, `near` is used in any case: there the other methods gain nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/devices/operations/gemm_profile.h"
#include "sim/devices/operations/kriging.h"

namespace twin::sim {

// A curve over m for one (n, k).
struct GemmCurveRatios {
  std::vector<double> log_ratios;  // at the table's m
  double variance = 0;             // of kriging over (n, k); 0 if (n, k) was measured
};

class GemmKriging {
 public:
  // `pool`: tables of the same format, for `pooled`. Tables that lack one of the m of `table` do
  // not count, nor does `table` itself. All tables outlive this.
  explicit GemmKriging(const GemmTable& table, std::span<const GemmTable* const> pool = {});

  // `excluded` leaves a measured (n, k) out, for judging. Sizes below all measured ones take the
  // ratios of the smallest, with the variance of their distance.
  [[nodiscard]] GemmCurveRatios CurveAt(std::uint32_t n, std::uint32_t k,
                                        bool excluded = false) const;

 private:
  // A measured (n, k).
  struct Shape {
    std::size_t row;     // of the table's n
    std::size_t column;  // of its k
    double octaves_n;
    double octaves_k;
  };
  // A table of the pool.
  struct Other {
    const GemmTable* table;
    std::vector<std::size_t> m;  // where it has the m of the table
  };

  // `excluded`: index in shapes_ of a shape to leave out; shapes_.size() = none.
  [[nodiscard]] GemmCurveRatios Interpolated(std::uint32_t n, std::uint32_t k,
                                             std::size_t excluded) const;
  // Variance in units of the covariance that between_shapes chooses, as the table's deviations are.
  [[nodiscard]] double Variance(std::uint32_t n, std::uint32_t k, std::size_t excluded) const;
  // The weights of shapes_.
  [[nodiscard]] KrigingWeights Weights(std::uint32_t n, std::uint32_t k, std::size_t excluded,
                                       double additive_share, const KrigingRules& rules) const;
  [[nodiscard]] std::vector<double> OwnCurve(const Shape& shape) const;
  // The median of all libraries that measured it.
  [[nodiscard]] std::vector<double> PooledCurve(const Shape& shape) const;

  const GemmTable& table_;
  std::vector<Shape> shapes_;
  std::vector<Other> others_;  // empty unless the table pools them
};

}  // namespace twin::sim
