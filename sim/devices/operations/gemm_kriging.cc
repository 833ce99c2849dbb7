#include "sim/devices/operations/gemm_kriging.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/check.h"
#include "core/statistics.h"
#include "sim/devices/operations/gemm_table.h"

namespace twin::sim {
namespace {

// Distances in octaves at which the covariance has fallen to 1/e.
constexpr double kRangeN = 1;
constexpr double kRangeK = 3;
constexpr double kAdditiveRangeN = 2;
constexpr double kAdditiveRangeK = 4;
constexpr KrigingRules kNearRules{.neighbours = 16, .nugget = 0.03};
constexpr double kAdditiveShare = 0.6;  // of the covariance
constexpr KrigingRules kAdditiveRules{.neighbours = 24, .nugget = 0.01};
// For the difference of a library from the median of all.
constexpr KrigingRules kDifferenceRules{.neighbours = 24, .nugget = 0.5};

double Covariance(double additive_share, double octaves_n, double octaves_k) {
  const double joint = std::exp(-std::hypot(octaves_n / kRangeN, octaves_k / kRangeK));
  const double apart = std::exp(-std::abs(octaves_n) / kAdditiveRangeN) +
                       std::exp(-std::abs(octaves_k) / kAdditiveRangeK);
  return std::lerp(joint, apart / 2, additive_share);
}

// Where `values` lie in an ascending list; none if one of them is not there.
std::optional<std::vector<std::size_t>> IndicesOf(const std::vector<std::uint32_t>& list,
                                                  const std::vector<std::uint32_t>& values) {
  std::vector<std::size_t> indices;
  for (const std::uint32_t value : values) {
    const std::optional<std::size_t> index = IndexOf(list, value);
    if (!index) return std::nullopt;
    indices.push_back(*index);
  }
  return indices;
}

void AddWeighted(double weight, const std::vector<double>& curve, std::vector<double>& sum) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * curve[i];
}

}  // namespace

GemmKriging::GemmKriging(const GemmTable& table, std::span<const GemmTable* const> pool)
    : table_(table) {
  for (std::size_t i = 0; i < table.n.size(); ++i) {
    for (std::size_t j = 0; j < table.k.size(); ++j) {
      if (table.curves[i * table.k.size() + j].empty()) continue;
      shapes_.push_back({i, j, std::log2(static_cast<double>(table.n[i])),
                         std::log2(static_cast<double>(table.k[j]))});
    }
  }
  if (table.between_shapes != GemmBetweenShapes::kPooled) return;
  for (const GemmTable* other : pool) {
    if (other == &table) continue;
    if (auto m = IndicesOf(other->m, table.m)) others_.push_back({other, *std::move(m)});
  }
}

GemmCurveRatios GemmKriging::CurveAt(std::uint32_t n, std::uint32_t k, bool excluded) const {
  const std::optional<std::size_t> row = IndexOf(table_.n, n);
  const std::optional<std::size_t> column = IndexOf(table_.k, k);
  const auto own = std::ranges::find_if(
      shapes_, [&](const Shape& shape) { return shape.row == row && shape.column == column; });
  if (own != shapes_.end() && !excluded) return {OwnCurve(*own), 0};
  const auto left_out = static_cast<std::size_t>(own - shapes_.begin());
  // Weights that continue a trend beyond the smallest sizes grow without bound (an fp8 product took
  // eight times as long with n = 8 as with 32).
  const std::uint32_t inside_n = std::max(n, table_.n.front());
  const std::uint32_t inside_k = std::max(k, table_.k.front());
  if (n != inside_n || k != inside_k) {
    GemmCurveRatios edge = CurveAt(inside_n, inside_k);
    edge.variance = std::max(edge.variance, Variance(n, k, left_out));
    return edge;
  }
  return Interpolated(n, k, left_out);
}

GemmCurveRatios GemmKriging::Interpolated(std::uint32_t n, std::uint32_t k,
                                          std::size_t excluded) const {
  GemmCurveRatios result{std::vector<double>(table_.m.size(), 0.0), 0};
  const bool is_near = table_.between_shapes == GemmBetweenShapes::kNear;
  const bool is_beyond = n > table_.n.back() || k > table_.k.back();
  const KrigingWeights weights = is_near || is_beyond
                                     ? Weights(n, k, excluded, 0, kNearRules)
                                     : Weights(n, k, excluded, kAdditiveShare, kAdditiveRules);
  result.variance = is_beyond ? Variance(n, k, excluded) : weights.variance;
  if (others_.empty() || is_beyond) {
    for (std::size_t i = 0; i < weights.count; ++i) {
      AddWeighted(weights.weights[i], OwnCurve(shapes_[weights.points[i]]), result.log_ratios);
    }
    return result;
  }
  const KrigingWeights difference = Weights(n, k, excluded, kAdditiveShare, kDifferenceRules);
  for (std::size_t i = 0; i < weights.count; ++i) {
    CHECK(weights.points[i] == difference.points[i]);
    const Shape& shape = shapes_[weights.points[i]];
    AddWeighted(weights.weights[i] - difference.weights[i], PooledCurve(shape), result.log_ratios);
    AddWeighted(difference.weights[i], OwnCurve(shape), result.log_ratios);
  }
  return result;
}

double GemmKriging::Variance(std::uint32_t n, std::uint32_t k, std::size_t excluded) const {
  return table_.between_shapes == GemmBetweenShapes::kNear
             ? Weights(n, k, excluded, 0, kNearRules).variance
             : Weights(n, k, excluded, kAdditiveShare, kAdditiveRules).variance;
}

KrigingWeights GemmKriging::Weights(std::uint32_t n, std::uint32_t k, std::size_t excluded,
                                    double additive_share, const KrigingRules& rules) const {
  const double octaves_n = std::log2(static_cast<double>(n));
  const double octaves_k = std::log2(static_cast<double>(k));
  return Krige(
      shapes_.size(), excluded, rules,
      [&](std::size_t i) {
        return Covariance(additive_share, shapes_[i].octaves_n - octaves_n,
                          shapes_[i].octaves_k - octaves_k);
      },
      [&](std::size_t i, std::size_t j) {
        return Covariance(additive_share, shapes_[i].octaves_n - shapes_[j].octaves_n,
                          shapes_[i].octaves_k - shapes_[j].octaves_k);
      });
}

std::vector<double> GemmKriging::OwnCurve(const Shape& shape) const {
  return DecodeGemmCurve(table_.curves[shape.row * table_.k.size() + shape.column]);
}

std::vector<double> GemmKriging::PooledCurve(const Shape& shape) const {
  std::vector<double> own = OwnCurve(shape);
  std::vector<std::vector<double>> values(own.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    values[i].reserve(1 + others_.size());
    values[i].push_back(own[i]);
  }
  for (const Other& other : others_) {
    const GemmTable& table = *other.table;
    const std::optional<std::size_t> row = IndexOf(table.n, table_.n[shape.row]);
    const std::optional<std::size_t> column = IndexOf(table.k, table_.k[shape.column]);
    if (!row || !column) continue;
    const std::string& curve = table.curves[*row * table.k.size() + *column];
    if (curve.empty()) continue;
    const std::vector<double> decoded = DecodeGemmCurve(curve);
    for (std::size_t i = 0; i < own.size(); ++i) values[i].push_back(decoded[other.m[i]]);
  }
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = Median(std::move(values[i]));
  return own;
}

}  // namespace twin::sim
