#include "sim/cost/step_features.h"

#include <gtest/gtest.h>

#include "config/models/model_names.h"
#include "core/input_error.h"

namespace twin::sim {
namespace {

double At(const StepFeatures& x, Feature feature) { return x[static_cast<std::size_t>(feature)]; }

TEST(StepFeaturesTest, CountPaddingAsTokensButNotAsAttention) {
  const FeatureExtractor extract(ModelPreset("llama-3-8b"), 1);
  const StepFeatures x = extract({.prefill_tokens = 100,
                                  .prefill_items = 2,
                                  .prefill_context_tokens = 130,
                                  .prefill_attention_pairs = 4000,
                                  .decode_items = 7,
                                  .decode_context_tokens = 700,
                                  .emitting_items = 8,
                                  .padding_tokens = 20});
  EXPECT_EQ(At(x, Feature::kTokens), 127);
  EXPECT_EQ(At(x, Feature::kGemmRows), 127);
  EXPECT_EQ(At(x, Feature::kPrefillTokens), 100);
  EXPECT_EQ(At(x, Feature::kPrefillContext), 130);
  EXPECT_EQ(At(x, Feature::kPrefillPairs), 4000);
  EXPECT_EQ(At(x, Feature::kDecodeItems), 7);
  EXPECT_EQ(At(x, Feature::kDecodeContext), 700);
  EXPECT_EQ(At(x, Feature::kEmittingItems), 8);
}

TEST(StepFeaturesTest, TilesRoundGemmRowsUp) {
  const FeatureExtractor extract(ModelPreset("llama-3-8b"), 128);
  EXPECT_EQ(At(extract({.prefill_tokens = 256}), Feature::kGemmRows), 256);
  EXPECT_EQ(At(extract({.prefill_tokens = 257}), Feature::kGemmRows), 384);
  EXPECT_EQ(At(extract({.prefill_tokens = 257}), Feature::kTokens), 257);
  EXPECT_EQ(At(extract({}), Feature::kGemmRows), 0);
}

TEST(StepFeaturesTest, AWindowLimitsTheKeysOfEachQuery) {
  const FeatureExtractor extract(ModelPreset("mistral-7b"), 1);  // 4096 in all layers
  // Four decodes at 6000 keys each read 4096; at 1000 keys they read them all.
  EXPECT_EQ(
      At(extract({.decode_items = 4, .decode_context_tokens = 24'000}), Feature::kDecodeContext),
      4 * 4096);
  EXPECT_EQ(
      At(extract({.decode_items = 4, .decode_context_tokens = 4'000}), Feature::kDecodeContext),
      4'000);
  // A chunk of 512 at position 8192: no query sees more than 4096, the chunk 512 + 4096 keys.
  const StepFeatures x = extract({.prefill_tokens = 512,
                                  .prefill_items = 1,
                                  .prefill_context_tokens = 8704,
                                  .prefill_attention_pairs = 512 * 8192 + 512 * 513 / 2});
  EXPECT_EQ(At(x, Feature::kPrefillPairs), 512 * 4096);
  EXPECT_DOUBLE_EQ(At(x, Feature::kPrefillContext), 512 + 4096);
}

TEST(StepFeaturesTest, LayersWithAndWithoutAWindowAreAveraged) {
  ModelSpec model = ModelPreset("mistral-7b");
  model.windowed_layers = 8;  // of 32: three quarters read 6000 keys, one quarter 4096
  const FeatureExtractor extract(model, 1);
  EXPECT_DOUBLE_EQ(
      At(extract({.decode_items = 1, .decode_context_tokens = 6000}), Feature::kDecodeContext),
      0.75 * 6000 + 0.25 * 4096);
}

TEST(StepFeaturesTest, TouchedExpertsFollowFromUniformChoice) {
  const FeatureExtractor extract(ModelPreset("mixtral-8x7b"), 1);  // 2 of 8
  EXPECT_EQ(At(extract({}), Feature::kTouchedExperts), 0);
  // One token touches its two; two tokens 8 x (1 - 0.75^2) = 3.5; very many all eight.
  EXPECT_DOUBLE_EQ(At(extract({.decode_items = 1}), Feature::kTouchedExperts), 2.0);
  EXPECT_DOUBLE_EQ(At(extract({.decode_items = 2}), Feature::kTouchedExperts), 3.5);
  EXPECT_NEAR(At(extract({.prefill_tokens = 100'000}), Feature::kTouchedExperts), 8.0, 1e-5);
  EXPECT_EQ(At(extract({.decode_items = 3}), Feature::kExpertRows), 6);
}

TEST(StepFeaturesTest, TilesRoundTheRowsOfEachTouchedExpertUp) {
  const FeatureExtractor extract(ModelPreset("mixtral-8x7b"), 64);
  // One token: 2 rows, one on each of two experts, each a tile of 64.
  EXPECT_DOUBLE_EQ(At(extract({.decode_items = 1}), Feature::kExpertRows), 128);
}

TEST(StepFeaturesTest, RefusesATileOfNothing) {
  EXPECT_THROW(FeatureExtractor(ModelPreset("gpt2"), 0), InputError);
}

}  // namespace
}  // namespace twin::sim
