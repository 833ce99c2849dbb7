#include "sim/devices/operations/prompt_kriging.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/check.h"
#include "sim/devices/operations/kriging.h"

namespace twin::sim {
namespace {

constexpr KrigingRules kPromptRules{.neighbours = 16, .nugget = 0.01};
// In the median over the calls of measured heads, each predicted without a fifth of all heads.
constexpr double kUsualVariance = 0.02;

// Matern's covariance with smoothness 3/2.
double CallCovariance(double squared_distance) {
  const double distance = std::sqrt(squared_distance);
  return (1 + distance) * std::exp(-distance);
}

template <class Place>
double SquaredDistance(const Place& a, const Place& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

}  // namespace

// The factors, inverse ranges per octave, were chosen on heads left out of the prompts of vLLM on
// A100, H100, H200 and L40S.
PromptKriging::Place PromptKriging::PlaceOf(const PromptCall& call) const {
  const double tokens = call.requests * call.tokens;
  const double tiles = ContextTiles(kernel_, {.requests = call.requests,
                                              .tokens = tokens,
                                              .context_tokens = tokens,
                                              .pairs = tokens * (call.tokens + 1) / 2,
                                              .context_max = call.tokens,
                                              .query_heads = static_cast<double>(call.query_heads),
                                              .kv_heads = static_cast<double>(call.kv_heads),
                                              .head_dim = 128});
  const double waves = tiles / (kernel_.multiprocessors * kernel_.slots_per_multiprocessor);
  const double whole_waves = std::ceil(waves - 1e-9);
  const std::int32_t group = call.query_heads / call.kv_heads;
  const bool parts = static_cast<std::int32_t>(kernel_.tile_rows) % group != 0;
  return {0.5 * std::log2(call.tokens),
          0.1 * std::log2(call.requests),
          0.2 * std::log2(call.tokens * group),
          0.2 * std::log2(tokens * call.kv_heads),
          0.5 * std::log2(tokens * call.query_heads),
          0.3 * std::log2(static_cast<double>(call.kv_heads)),
          0.3 * std::log2(tiles),
          waves > 1 ? 0.8 * std::log2(whole_waves / waves) : 0,
          parts ? 0.3 : 0};
}

void PromptKriging::Add(const PromptCall& call, double log_ratio) {
  points_.push_back({PlaceOf(call), log_ratio});
}

LogRatio PromptKriging::operator()(const PromptCall& call) const {
  CHECK(!points_.empty());
  const Place target = PlaceOf(call);
  std::vector<std::pair<double, std::size_t>> nearest;
  nearest.reserve(points_.size());
  for (std::size_t i = 0; i < points_.size(); ++i) {
    nearest.emplace_back(SquaredDistance(target, points_[i].place), i);
  }
  const std::size_t count = std::min(kPromptRules.neighbours, nearest.size());
  std::ranges::nth_element(nearest, nearest.begin() + static_cast<std::ptrdiff_t>(count - 1));
  const KrigingWeights weights = Krige(
      count, count, kPromptRules, [&](std::size_t i) { return CallCovariance(nearest[i].first); },
      [&](std::size_t i, std::size_t j) {
        return CallCovariance(
            SquaredDistance(points_[nearest[i].second].place, points_[nearest[j].second].place));
      });
  LogRatio result{0, std::sqrt(weights.variance / kUsualVariance)};
  for (std::size_t i = 0; i < weights.count; ++i) {
    result.mean += weights.weights[i] * points_[nearest[weights.points[i]].second].log_ratio;
  }
  return result;
}

}  // namespace twin::sim
