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

// Features that follow from the same few totals, so that they change together.
enum class FeatureGroup : std::uint8_t {
  kRows,     // of the number of tokens
  kChunks,   // of the prefill items
  kDecodes,  // of the decodes and their context
  kLogits,   // of the rows of logits
};
constexpr std::size_t kFeatureGroupCount = 4;

FeatureGroup GroupOf(Feature feature);

// The features of the step before, and the totals that they follow from; of no step at first.
struct KnownFeatures {
  std::int64_t tokens = -1;
  std::int64_t logit_rows = -1;
  std::int64_t decode_items = -1;
  std::int64_t decode_context_tokens = -1;
  std::int64_t prefill_items = -1;
  std::int64_t prefill_tokens = -1;
  std::int64_t prefill_context_tokens = -1;
  std::int64_t prefill_attention_pairs = -1;
  StepFeatures x{};
};

// The keys that queries see. `share` of the layers see at most `keys`, the others all; keys 0 = all
// layers see all.
struct KeyWindow {
  std::int32_t keys = 0;
  double share = 1;
};

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
  // `tile_tokens`: GEMM rows are charged in multiples of it; 1 = exact rows. Throws InputError
  // (usage) unless all layers have attention over cached keys and one shape.
  FeatureExtractor(const ModelSpec& model, std::int32_t tile_tokens);
  // Features of layers of any attention, in exact rows.
  FeatureExtractor(const KeyWindow& window, const MoeSpec& moe);

  [[nodiscard]] StepFeatures operator()(const StepTotals& totals) const;

  // Makes `known` the features of a step with these totals. Calls `changed(group)` for each group
  // whose totals differ from the step before, in any order; an operation may depend on several.
  template <class Changed>
  void Renew(const StepTotals& totals, KnownFeatures& known, const Changed& changed) const {
    if (totals.decode_items != known.decode_items ||
        totals.decode_context_tokens != known.decode_context_tokens) {
      known.decode_items = totals.decode_items;
      known.decode_context_tokens = totals.decode_context_tokens;
      SetDecodes(totals, known.x);
      changed(FeatureGroup::kDecodes);
    }
    if (totals.tokens() != known.tokens) {
      known.tokens = totals.tokens();
      SetRows(totals, known.x);
      changed(FeatureGroup::kRows);
    }
    if (totals.logit_rows() != known.logit_rows) {
      known.logit_rows = totals.logit_rows();
      SetLogits(totals, known.x);
      changed(FeatureGroup::kLogits);
    }
    if (totals.prefill_items != known.prefill_items ||
        totals.prefill_tokens != known.prefill_tokens ||
        totals.prefill_context_tokens != known.prefill_context_tokens ||
        totals.prefill_attention_pairs != known.prefill_attention_pairs) {
      known.prefill_items = totals.prefill_items;
      known.prefill_tokens = totals.prefill_tokens;
      known.prefill_context_tokens = totals.prefill_context_tokens;
      known.prefill_attention_pairs = totals.prefill_attention_pairs;
      SetChunks(totals, known.x);
      changed(FeatureGroup::kChunks);
    }
  }

 private:
  static void Set(StepFeatures& x, Feature feature, double value) {
    x[static_cast<std::size_t>(feature)] = value;
  }
  void SetRows(const StepTotals& totals, StepFeatures& x) const;
  void SetChunks(const StepTotals& totals, StepFeatures& x) const;
  static void SetLogits(const StepTotals& totals, StepFeatures& x) {
    Set(x, Feature::kEmittingItems, static_cast<double>(totals.logit_rows()));
  }
  void SetDecodes(const StepTotals& totals, StepFeatures& x) const {
    const auto decodes = static_cast<double>(totals.decode_items);
    Set(x, Feature::kDecodeItems, decodes);
    Set(x, Feature::kDecodeContext,
        Windowed(static_cast<double>(totals.decode_context_tokens), decodes));
  }
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
