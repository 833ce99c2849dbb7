// What recorded steps of a model change in its predictions.
#include "sim/devices/recorded_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "config/models/model_names.h"
#include "core/input_error.h"
#include "sim/devices/step_model.h"
#include "tests/unit/sim/test_hardware.h"

namespace twin::sim {
namespace {

// Up to 64 decodes of 1,000 tokens, without ratios.
RecordedModel Recorded() {
  RecordedModel recorded;
  recorded.model = "llama-3-8b";
  recorded.rows_max = 64;
  recorded.decodes_max = 64;
  recorded.context_tokens_max = 64'000;
  return recorded;
}

StepTotals Decodes(std::int64_t items) {
  return {.decode_items = items, .decode_context_tokens = 1000 * items, .emitting_items = items};
}

StepTotals Chunk(std::int64_t tokens, std::int64_t decodes) {
  StepTotals totals = Decodes(decodes);
  totals.prefill_tokens = tokens;
  totals.prefill_items = 1;
  totals.prefill_context_tokens = tokens;
  totals.prefill_attention_pairs = tokens * (tokens + 1) / 2;
  totals.emitting_items += 1;
  return totals;
}

double At(const StageTimes& times, OperationClass operation) {
  return times.operations[static_cast<std::size_t>(operation)];
}

// Seconds of a step of Llama-3-8B.
double Seconds(const StepTotals& totals, const RecordedModel& recorded,
               const StepModelConfig& config = {}) {
  DeviceProfile device;
  device.steps.models = {recorded};
  const StepModel model(config, ModelPreset("llama-3-8b"), IdealHardware(), {}, device);
  return model.Times(totals, 0, 0, 0).total();
}

// Operations alone, on a device whose heat has no effect.
StepModelConfig WithoutGaps() {
  StepModelConfig config;
  config.terms.heat_factor = {0, 0};
  config.terms.decode_heat_factor = {0, 0};
  config.terms.graph_gap_s = {0, 0};
  config.terms.eager_gap_s = {0, 0};
  config.terms.layer_launch_s = {0, 0};
  return config;
}

TEST(RecordedModelTest, RatiosAreLinearBetweenLogarithmsOfRowsAndConstantBeyond) {
  const RecordedRatios ratios{.rows = {8, 32}, .log_ratios = {0.01, 0.03}};
  EXPECT_DOUBLE_EQ(ratios.At(1), 0.01);
  EXPECT_DOUBLE_EQ(ratios.At(8), 0.01);
  EXPECT_DOUBLE_EQ(ratios.At(16), 0.02);  // half of two octaves
  EXPECT_DOUBLE_EQ(ratios.At(32), 0.03);
  EXPECT_DOUBLE_EQ(ratios.At(1000), 0.03);
  EXPECT_EQ(RecordedRatios{}.At(8), 0);
}

// Decode steps of 16 rows were recorded to take twice, steps with prompts half as long.
TEST(RecordedModelTest, StepsTakeAsMuchLongerAsRecordingsDid) {
  RecordedModel recorded = Recorded();
  recorded.rows_max = 4096;
  const double decodes = Seconds(Decodes(16), recorded, WithoutGaps());
  const double mixed = Seconds(Chunk(500, 4), recorded, WithoutGaps());
  recorded.decode_ratios = {.rows = {16}, .log_ratios = {std::log(2.0)}};
  recorded.prompt_ratios = {.rows = {500}, .log_ratios = {-std::log(2.0)}};
  EXPECT_NEAR(Seconds(Decodes(16), recorded, WithoutGaps()), 2 * decodes, 1e-12);
  EXPECT_NEAR(Seconds(Chunk(500, 4), recorded, WithoutGaps()), mixed / 2, 1e-12);

  StepModelConfig without = WithoutGaps();
  without.recorded_ratios = false;
  EXPECT_EQ(Seconds(Decodes(16), recorded, without), decodes);
}

// 128 decodes are an octave more than the most that were recorded: 1/e of the ratio is left.
TEST(RecordedModelTest, RatiosFadeBeyondTheLargestRecordedStep) {
  RecordedModel recorded = Recorded();
  const double decodes = Seconds(Decodes(128), recorded, WithoutGaps());
  recorded.decode_ratios = {.rows = {64}, .log_ratios = {0.04}};
  EXPECT_NEAR(std::log(Seconds(Decodes(128), recorded, WithoutGaps()) / decodes),
              0.04 * std::exp(-1.0), 1e-9);
}

TEST(RecordedModelTest, RatiosHoldForTheirModelItsFormatsAndRanksAlone) {
  const RecordedModel recorded = Recorded();
  ModelSpec model = ModelPreset("llama-3-8b");
  EXPECT_TRUE(recorded.Is(model, {}));
  EXPECT_FALSE(recorded.Is(ModelPreset("qwen3-8b"), {}));
  EXPECT_FALSE(recorded.Is(model, {.tensor = 2}));
  EXPECT_FALSE(recorded.Is(model, {.pipeline = 2}));
  model.weight_dtype = DType::kFp8;
  EXPECT_FALSE(recorded.Is(model, {}));
}

// The kernels of another library, or another engine's steps, were not recorded.
TEST(RecordedModelTest, RatiosHoldForTheirLibraryAndEngineAlone) {
  RecordedModel recorded = Recorded();
  recorded.decode_ratios = {.rows = {16}, .log_ratios = {0.5}};
  const double with = Seconds(Decodes(16), recorded, WithoutGaps());
  StepModelConfig sglang = WithoutGaps();
  sglang.operations.library = KernelLibrary::kSglang;
  EXPECT_LT(Seconds(Decodes(16), recorded, sglang), 0.7 * with);
  StepModelConfig v0 = WithoutGaps();
  v0.recorded_engine = false;
  EXPECT_LT(Seconds(Decodes(16), recorded, v0), 0.7 * with);
}

// A ratio is one of the operations: the gap before them stays.
TEST(RecordedModelTest, GapsHaveNoRatio) {
  RecordedModel recorded = Recorded();
  StepModelConfig config = WithoutGaps();
  const double operations = Seconds(Decodes(16), recorded, config);
  config.terms.graph_gap_s = {operations / 4, 0};
  recorded.decode_ratios = {.rows = {16}, .log_ratios = {std::log(2.0)}};
  EXPECT_NEAR(Seconds(Decodes(16), recorded, config), 2.25 * operations, 1e-12);
}

TEST(RecordedModelTest, RatiosThatDoNotMatchAreRefused) {
  RecordedModel recorded = Recorded();
  recorded.prompt_ratios = {.rows = {8, 16}, .log_ratios = {0.1}};
  EXPECT_THROW(Validate(recorded), InputError);
  recorded.prompt_ratios = {.rows = {16, 8}, .log_ratios = {0.1, 0.1}};
  EXPECT_THROW(Validate(recorded), InputError);
  recorded.prompt_ratios = {.rows = {8, 16}, .log_ratios = {0.1, 0.1}};
  EXPECT_NO_THROW(Validate(recorded));
  recorded.prompt_ratios.log_ratios[1] = 1.1;  // three times
  EXPECT_THROW(Validate(recorded), InputError);
  recorded = Recorded();
  recorded.step_sd = -0.1;
  EXPECT_THROW(Validate(recorded), InputError);
}

// Steps with prompts were recorded apart from those of decodes alone, and their errors differ.
TEST(RecordedModelTest, RecordedStepsWithPromptsHaveAnErrorOfTheirOwn) {
  DeviceProfile device;
  RecordedModel& recorded = device.steps.models.emplace_back(Recorded());
  recorded.rows_max = 4096;
  recorded.prompt_lasting_sd = 0.01;
  StepModelConfig config;
  const auto gemm_of = [&](std::uint64_t seed, const StepTotals& totals) {
    config.draw_seed = seed;
    const StepModel steps(config, ModelPreset("llama-3-8b"), IdealHardware(), {}, device);
    return At(steps.Times(totals, 0, 0, 0), OperationClass::kGemm);
  };
  EXPECT_EQ(gemm_of(1, Decodes(8)), gemm_of(0, Decodes(8)));
  const double error = std::log(gemm_of(1, Chunk(500, 4)) / gemm_of(0, Chunk(500, 4)));
  EXPECT_GT(std::abs(error), 1e-6);
  EXPECT_LT(std::abs(error), 4 * 0.01);
}

// Recorded steps know what the errors of a model's operations add up to, until steps get larger.
TEST(RecordedModelTest, RecordedStepsOfAModelLeaveItOneSmallError) {
  DeviceProfile device;
  device.steps.models.emplace_back(Recorded()).lasting_sd = 0.01;
  const auto drawn = [&](const char* model, std::int64_t items, OperationClass operation) {
    StepModelConfig config;
    const auto seconds = [&](std::uint64_t seed) {
      config.draw_seed = seed;
      const StepModel steps(config, ModelPreset(model), IdealHardware(), {}, device);
      return At(steps.Times(Decodes(items), 0, 0, 0), operation);
    };
    return std::log(seconds(1) / seconds(0));
  };
  constexpr auto kGemm = OperationClass::kGemm;
  constexpr auto kAttention = OperationClass::kDecodeAttention;
  const double recorded = drawn("llama-3-8b", 64, kGemm);
  EXPECT_LT(std::abs(recorded), 4 * 0.01);
  EXPECT_NEAR(drawn("llama-3-8b", 8, kAttention), recorded, 1e-12);
  const double other = drawn("qwen3-8b", 128, kAttention);
  // An octave beyond, 1 - 1/e of the variance.
  EXPECT_NEAR(drawn("llama-3-8b", 128, kAttention) - recorded,
              std::sqrt(1 - std::exp(-1.0)) * other, 1e-9);
}

}  // namespace
}  // namespace twin::sim
