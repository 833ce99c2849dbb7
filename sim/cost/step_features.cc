#include "sim/cost/step_features.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "core/input_error.h"
#include "core/layer_groups.h"

namespace twin::sim {
namespace {

constexpr double kUntouchedShare = 1e-6;
// Finite, so that no queries times no window is 0.
constexpr double kNoWindow = 1e18;

std::vector<double> ExpectedTouchedExperts(const MoeSpec& moe) {
  if (moe.experts == 0) return {};
  const double experts = moe.experts;
  const double missed_by_one = 1.0 - moe.experts_per_token / experts;
  std::vector<double> touched;
  double missed = 1.0;
  while (true) {
    touched.push_back(experts * (1.0 - missed));
    if (missed <= kUntouchedShare) return touched;
    missed *= missed_by_one;
  }
}

std::int64_t RoundUp(std::int64_t rows, std::int64_t tile) {
  return (rows + tile - 1) / tile * tile;
}

}  // namespace

FeatureGroup GroupOf(Feature feature) {
  switch (feature) {
    case Feature::kPrefillTokens:
    case Feature::kPrefillContext:
    case Feature::kPrefillPairs:
      return FeatureGroup::kChunks;
    case Feature::kDecodeItems:
    case Feature::kDecodeContext:
      return FeatureGroup::kDecodes;
    case Feature::kEmittingItems:
      return FeatureGroup::kLogits;
    default:
      return FeatureGroup::kRows;
  }
}

FeatureExtractor::FeatureExtractor(const KeyWindow& window, const MoeSpec& moe)
    : tile_tokens_(1),
      window_(window.keys > 0 ? window.keys : kNoWindow),
      windowed_share_(window.share),
      experts_per_token_(moe.experts_per_token),
      touched_experts_(ExpectedTouchedExperts(moe)) {}

FeatureExtractor::FeatureExtractor(const ModelSpec& model, std::int32_t tile_tokens)
    : FeatureExtractor(KeyWindow{.keys = model.sliding_window, .share = WindowedShare(model)},
                       model.moe) {
  tile_tokens_ = tile_tokens;
  const bool unknown = model.latent || model.recurrent || model.block_index || model.chunk > 0 ||
                       model.query_rank > 0 || model.linears > 0;
  const bool differ = ListsLayers(model) && OrderedLayers(model).size() > 1;
  if (differ || unknown || model.is_mtp_module) {
    throw InputError(
        InputError::Kind::kUsage, "cost",
        fmt::format("layers of {} differ, have attention of another kind than over cached keys, or "
                    "predict several tokens, which roofline and fitted costs do not know; allowed: "
                    "profile, linear, constant",
                    model.name));
  }
  if (tile_tokens < 1) {
    throw InputError(InputError::Kind::kUsage, "cost.roofline.gemm_tile_tokens",
                     fmt::format("is {}; allowed: at least 1", tile_tokens));
  }
}

double FeatureExtractor::TouchedExperts(std::int64_t tokens) const {
  const auto index = static_cast<std::size_t>(tokens);
  return index < touched_experts_.size() ? touched_experts_[index] : touched_experts_.back();
}

void FeatureExtractor::SetRows(const StepTotals& totals, StepFeatures& x) const {
  const std::int64_t tokens = totals.tokens();
  Set(x, Feature::kOne, 1.0);
  Set(x, Feature::kTokens, static_cast<double>(tokens));
  Set(x, Feature::kGemmRows,
      static_cast<double>(tile_tokens_ == 1 ? tokens : RoundUp(tokens, tile_tokens_)));
  if (touched_experts_.empty()) return;
  const double touched = TouchedExperts(tokens);
  const auto rows = static_cast<double>(tokens * experts_per_token_);
  const auto tile = static_cast<double>(tile_tokens_);
  Set(x, Feature::kTouchedExperts, touched);
  Set(x, Feature::kExpertRows,
      tile_tokens_ == 1 || tokens == 0 ? rows : std::ceil(rows / touched / tile) * tile * touched);
}

void FeatureExtractor::SetChunks(const StepTotals& totals, StepFeatures& x) const {
  const auto tokens = static_cast<double>(totals.prefill_tokens);
  Set(x, Feature::kPrefillTokens, tokens);
  // A windowed chunk reads at most its own tokens and the window before each item.
  Set(x, Feature::kPrefillContext,
      Windowed(static_cast<double>(totals.prefill_context_tokens),
               tokens / window_ + static_cast<double>(totals.prefill_items)));
  Set(x, Feature::kPrefillPairs,
      Windowed(static_cast<double>(totals.prefill_attention_pairs), tokens));
}

StepFeatures FeatureExtractor::operator()(const StepTotals& totals) const {
  StepFeatures x{};
  SetRows(totals, x);
  SetChunks(totals, x);
  SetLogits(totals, x);
  SetDecodes(totals, x);
  return x;
}

}  // namespace twin::sim
