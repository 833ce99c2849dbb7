// Synthetic measurements of a machine with known coefficients: the fit must find them again.
#include "sim/cost/fit_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "config/models/model_names.h"
#include "core/input_error.h"
#include "core/random.h"
#include "sim/cost/cost_table.h"
#include "sim/cost/fitted_config.h"
#include "sim/cost/fitted_cost.h"
#include "sim/cost/least_squares.h"

namespace twin::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

// The machine: times alone, and what whole steps make of them.
constexpr double kDecodeFactor = 1.2;
constexpr double kPrefillFactor = 0.95;
constexpr double kGemmBase = 2e-4;
constexpr double kPair = 4e-8;
constexpr double kContext = 3e-7;
constexpr double kDecodeContext = 5e-7;
constexpr double kDecodeItem = 6e-6;
constexpr double kAttentionBase = 5e-5;
constexpr double kOtherFactor = 1.1;
constexpr double kOtherBase = 8e-5;

double LayersAlone(double tokens) { return 0.01 + 2e-4 * tokens; }
double HeadAlone(double rows) { return 1e-3 + 5e-5 * rows; }
double OtherAlone(double tokens) { return 1e-5 * tokens; }

double Number(std::int64_t count) { return static_cast<double>(count); }

StepTotals Chunk(std::int64_t context, std::int64_t tokens) {
  return {.prefill_tokens = tokens,
          .prefill_items = 1,
          .prefill_context_tokens = context + tokens,
          .prefill_attention_pairs = tokens * context + tokens * (tokens + 1) / 2};
}

StepTotals Decodes(std::int64_t batch, std::int64_t keys) {
  return {.decode_items = batch, .decode_context_tokens = batch * keys, .emitting_items = batch};
}

StepTotals Sum(StepTotals a, const StepTotals& b) {
  a.decode_items += b.decode_items;
  a.decode_context_tokens += b.decode_context_tokens;
  a.emitting_items += b.emitting_items;
  return a;
}

double PrefillAlone(const StepTotals& t) {
  return kContext * Number(t.prefill_context_tokens) + kPair * Number(t.prefill_attention_pairs);
}
double DecodeAlone(const StepTotals& t) {
  return kDecodeItem * Number(t.decode_items) + kDecodeContext * Number(t.decode_context_tokens);
}

StepSample StepOf(const StepTotals& t, bool held_out) {
  StepSample step{.totals = t, .held_out = held_out};
  const auto set = [&](StepPart part, double seconds) {
    step.seconds[static_cast<std::size_t>(part)] = seconds;
  };
  const double tokens = Number(t.tokens());
  const double factor = t.prefill_items > 0 ? kPrefillFactor : kDecodeFactor;
  const double head = t.emitting_items > 0 ? HeadAlone(Number(t.emitting_items)) : 0;
  set(StepPart::kGemm, factor * (LayersAlone(tokens) + head) + kGemmBase);
  set(StepPart::kAttention, 1.5 * PrefillAlone(t) + 1.3 * DecodeAlone(t) + kAttentionBase);
  set(StepPart::kOther, kOtherFactor * OtherAlone(tokens) + kOtherBase);
  set(StepPart::kBuild, 2e-6 + 3e-7 * Number(t.prefill_items + t.decode_items) + 1e-8 * tokens);
  if (t.emitting_items > 0) set(StepPart::kSampling, 1e-6 + 2e-5 * Number(t.emitting_items));
  return step;
}

FitInput Measurements() {
  FitInput input;
  for (const double tokens : {1, 2, 4, 16, 64, 256, 1024}) {
    input.gemm_layers.push_back({tokens, LayersAlone(tokens)});
    input.other.push_back({tokens, OtherAlone(tokens)});
  }
  for (const double rows : {1, 4, 64}) input.gemm_head.push_back({rows, HeadAlone(rows)});
  for (const std::int64_t context : {0, 100, 1000}) {
    for (const std::int64_t tokens : {16, 64, 512}) {
      const StepTotals t = Chunk(context, tokens);
      input.attention.push_back({t, PrefillAlone(t)});
      const StepTotals d = Decodes(tokens / 8, context + 10);
      input.attention.push_back({d, DecodeAlone(d)});
    }
  }
  int number = 0;
  for (const std::int64_t batch : {1, 3, 9, 30, 60}) {
    for (const std::int64_t keys : {20, 200, 900}) {
      input.steps.push_back(StepOf(Decodes(batch, keys), ++number % 4 == 0));
      input.steps.push_back(
          StepOf(Sum(Chunk(keys, 8 * batch), Decodes(batch, keys)), ++number % 4 == 0));
      input.steps.push_back(StepOf(Chunk(keys, 5 * batch + 1), ++number % 4 == 0));
    }
  }
  for (const double items : {1, 8, 32}) {
    for (const double tokens : {50, 500}) {
      input.host.push_back(
          {items, tokens, 2e-5 + 1e-6 * items + 1e-8 * tokens, 3e-5 + 2e-7 * items});
    }
  }
  for (const double blocks : {1, 4, 16, 64}) input.copies.push_back({blocks, 1e-5 + 2e-5 * blocks});
  return input;
}

void ExpectRelative(double value, double expected, double tolerance) {
  EXPECT_NEAR(value / expected, 1, tolerance);
}

void ExpectCoefficients(const FittedCostConfig& c, double tolerance) {
  ExpectRelative(c.gemm_decode_factor, kDecodeFactor, tolerance);
  ExpectRelative(c.gemm_prefill_factor, kPrefillFactor, tolerance);
  ExpectRelative(c.attention.per_prefill_pair_s, 1.5 * kPair, tolerance);
  ExpectRelative(c.attention.per_decode_context_token_s, 1.3 * kDecodeContext, tolerance);
  ExpectRelative(c.other_factor, kOtherFactor, tolerance);
  ExpectRelative(c.sampling.per_item_s, 2e-5, tolerance);
  ExpectRelative(c.per_swapped_block_s, 2e-5, tolerance);
}

TEST(FitCostTest, FindsTheCoefficientsOfNoiselessMeasurements) {
  const ModelSpec model = ModelPreset("gpt2");
  const FitResult result = FitCost(Measurements(), model);
  const FittedCostConfig& c = result.config;
  ExpectCoefficients(c, 1e-6);
  ExpectRelative(c.gemm_base_s, kGemmBase, 1e-4);
  ExpectRelative(c.attention.base_s, kAttentionBase, 1e-4);
  ExpectRelative(c.attention.per_prefill_context_token_s, 1.5 * kContext, 1e-5);
  ExpectRelative(c.attention.per_decode_item_s, 1.3 * kDecodeItem, 1e-5);
  EXPECT_NEAR(c.attention.per_prefill_token_s, 0, 1e-12);
  ExpectRelative(c.other_base_s, kOtherBase, 1e-4);
  ExpectRelative(c.build.per_item_s, 3e-7, 1e-4);
  ExpectRelative(c.schedule.base_s, 2e-5, 1e-4);
  ExpectRelative(c.schedule.per_token_s, 1e-8, 1e-4);
  ExpectRelative(c.delivery.per_item_s, 2e-7, 1e-4);
  ExpectRelative(c.swap_latency_s, 1e-5, 1e-4);
  EXPECT_EQ(c.parameters, TotalParameters(model));
  EXPECT_EQ(c.tokens_max, 1024);
  EXPECT_EQ(c.decode_items_max, 64);
  EXPECT_EQ(c.prefill_context_tokens_max, 1512);
  EXPECT_EQ(result.report.total.steps, 11);
  EXPECT_LT(result.report.total.p90, 1e-6);
  EXPECT_NEAR(result.report.total.bias, 0, 1e-6);
}

TEST(FitCostTest, FindsThemWhereDecodesArePaddedToBuckets) {
  FitInput input = Measurements();
  input.decode_buckets = {2, 16, 64};
  for (StepSample& step : input.steps) {
    if (step.totals.prefill_items > 0) continue;
    const std::int64_t decodes = step.totals.decode_items;
    const double padded = decodes <= 2 ? 2 : decodes <= 16 ? 16 : 64;
    step.seconds[static_cast<std::size_t>(StepPart::kGemm)] =
        kDecodeFactor * (LayersAlone(padded) + HeadAlone(padded)) + kGemmBase;
    step.seconds[static_cast<std::size_t>(StepPart::kOther)] =
        kOtherFactor * OtherAlone(padded) + kOtherBase;
  }
  const FitResult result = FitCost(input, ModelPreset("gpt2"));
  ExpectCoefficients(result.config, 1e-6);
  EXPECT_EQ(result.config.decode_buckets, input.decode_buckets);
  EXPECT_LT(result.report.total.p90, 1e-6);
}

TEST(FitCostTest, NoiseAndAFewStepsOfABusyMachineMoveThemLittle) {
  FitInput input = Measurements();
  Random random(3, "fit_cost_test");
  const auto noisy = [&](double& seconds) {
    seconds *= 1 + 0.02 * random.Normal();
    if (random.UnitReal() < 0.06) seconds *= 3;  // a neighbour took the core
  };
  for (StepSample& step : input.steps) {
    for (double& seconds : step.seconds) noisy(seconds);
  }
  const FitResult result = FitCost(input, ModelPreset("gpt2"));
  ExpectCoefficients(result.config, 0.04);
  EXPECT_LT(result.report.total.median, 0.04);
}

TEST(FitCostTest, JudgesOnHeldOutStepsAlone) {
  FitInput input = Measurements();
  // All held-out steps take 10 % longer than the machine that is fitted.
  for (StepSample& step : input.steps) {
    if (!step.held_out) continue;
    for (double& seconds : step.seconds) seconds *= 1.1;
  }
  const FitResult result = FitCost(input, ModelPreset("gpt2"));
  ExpectCoefficients(result.config, 1e-6);
  const PartError& gemm = result.report.parts[static_cast<std::size_t>(StepPart::kGemm)];
  EXPECT_NEAR(gemm.median, 1 - 1 / 1.1, 1e-5);
  EXPECT_NEAR(result.report.total.bias, 1 / 1.1 - 1, 1e-5);
  EXPECT_GT(gemm.share, 0.5);
}

// "0.0 %" of steps that were measured once.
TEST(FitCostTest, TheNoiseOfSingleMeasurementsIsUnknown) {
  FitInput input = Measurements();
  const auto gemm = static_cast<std::size_t>(StepPart::kGemm);
  FitReport report = FitCost(input, ModelPreset("gpt2")).report;
  EXPECT_EQ(report.parts[gemm].noise, std::nullopt);
  EXPECT_EQ(report.total.noise, std::nullopt);
  for (StepSample& step : input.steps) {
    step.noise[gemm] = 0.02;
    step.total_noise = 0.01;
  }
  report = FitCost(input, ModelPreset("gpt2")).report;
  EXPECT_EQ(report.parts[gemm].noise, 0.02);
  EXPECT_EQ(report.total.noise, 0.01);
}

TEST(FitCostTest, APhaseThatNoStepShowsTakesTheFactorOfTheOther) {
  FitInput input = Measurements();
  std::erase_if(input.steps, [](const StepSample& step) { return step.totals.prefill_items > 0; });
  const FitResult result = FitCost(input, ModelPreset("gpt2"));
  ExpectRelative(result.config.gemm_prefill_factor, kDecodeFactor, 1e-6);
  ExpectRelative(result.config.attention.per_prefill_pair_s, 1.3 * kPair, 1e-6);
  EXPECT_THAT(result.report.notes, IsEmpty());
}

TEST(FitCostTest, SaysWhereAPhaseTakesNoTimeThatGrowsAndGivesBothOneFactor) {
  FitInput input = Measurements();
  for (StepSample& step : input.steps) {
    if (step.totals.prefill_items > 0) continue;
    // Half the constant: decodes leave nothing for what grows with them.
    step.seconds[static_cast<std::size_t>(StepPart::kGemm)] = kGemmBase / 2;
  }
  const FitResult result = FitCost(input, ModelPreset("gpt2"));
  EXPECT_THAT(result.report.notes,
              ElementsAre(HasSubstr("the time of matrix products in decode steps")));
  EXPECT_EQ(result.config.gemm_decode_factor, result.config.gemm_prefill_factor);
  EXPECT_THAT(FitCost(Measurements(), ModelPreset("gpt2")).report.notes, IsEmpty());
}

TEST(FitCostTest, SaysWhatIsMissing) {
  FitInput input = Measurements();
  input.steps.resize(5);
  EXPECT_THAT([&] { FitCost(input, ModelPreset("gpt2")); },
              ThrowsMessage<InputError>(HasSubstr("whole steps to fit on; needed: at least 8")));
  input = Measurements();
  input.attention.clear();
  EXPECT_THAT([&] { FitCost(input, ModelPreset("gpt2")); },
              ThrowsMessage<InputError>(HasSubstr("attention of 0 prefills")));
  input = Measurements();
  input.gemm_head.clear();
  EXPECT_THAT([&] { FitCost(input, ModelPreset("gpt2")); },
              ThrowsMessage<InputError>(HasSubstr("gemm_head")));
}

TEST(NonNegativeLeastSquaresTest, LeavesOutColumnsThatWouldTurnNegative) {
  // Unconstrained: (2, -1). With x1 = 0 the best x0 is the projection 3 / 2.
  Eigen::MatrixXd a(2, 2);
  a << 1, 0, 1, 1;
  const Eigen::VectorXd x = NonNegativeLeastSquares(a, Eigen::Vector2d(2, 1));
  EXPECT_NEAR(x[0], 1.5, 1e-12);
  EXPECT_EQ(x[1], 0);
}

TEST(NonNegativeLeastSquaresTest, GivesNothingToColumnsOfZeros) {
  Eigen::MatrixXd a(2, 2);
  a << 0, 2, 0, 4;
  const Eigen::VectorXd x = NonNegativeLeastSquares(a, Eigen::Vector2d(1, 2));
  EXPECT_EQ(x[0], 0);
  EXPECT_NEAR(x[1], 0.5, 1e-12);
}

}  // namespace
}  // namespace twin::sim
