// The features of a step that the costs of operations depend on.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/model_spec.h"
#include "sched/step_plan.h"

namespace twin::sim {

enum class Feature : std::uint8_t {
  kOne,       // 1
  kTokens,    // rows of per-token operations, padding included
  kGemmRows,  // kTokens rounded up to the tile
  kPrefillTokens,
  kPrefillContext,  // keys read by prefill items
  kPrefillPairs,    // (query, key) combinations of prefill items
  kDecodeItems,
  kDecodeContext,   // keys read by decodes
  kEmittingItems,   // rows of logits
  kExpertRows,      // tokens x experts per token, rounded up to the tile for each touched expert
  kTouchedExperts,  // experts that at least one token visits
  kCount,
};

constexpr std::size_t kFeatureCount = static_cast<std::size_t>(Feature::kCount);

using StepFeatures = std::array<double, kFeatureCount>;

// Derives the features of one model from a step's totals.
//
// Sliding windows: totals do not hold the length of each request, so a windowed layer is charged at
// most `window` keys per query on average. This is exact if all requests have equal lengths, and an
// upper bound otherwise. Layers with and without a window are averaged.
//
// Experts: tokens are assumed to choose experts uniformly and independently. Of E experts, n tokens
// that visit k each then touch E (1 - (1 - k/E)^n) on average. Real routers are more skewed.
class FeatureExtractor {
 public:
  // `tile_tokens`: GEMM rows are charged in multiples of it; 1 = exact rows.
  FeatureExtractor(const ModelSpec& model, std::int32_t tile_tokens);

  [[nodiscard]] StepFeatures operator()(const StepTotals& totals) const;

 private:
  [[nodiscard]] double Windowed(double keys, double queries) const {
    const double limit = queries * window_;
    return keys <= limit ? keys : keys + windowed_share_ * (limit - keys);
  }
  [[nodiscard]] double TouchedExperts(std::int64_t tokens) const;

  std::int64_t tile_tokens_;
  double window_;          // larger than any context if the model has none
  double windowed_share_;  // of the layers
  std::int64_t experts_per_token_;
  // By number of tokens, up to the number that touches all experts but one in a million.
  std::vector<double> touched_experts_;
};

}  // namespace twin::sim
