#include "sim/cost/fitted_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "config/models/model_names.h"
#include "core/input_error.h"
#include "sim/cost/registry.h"
#include "tests/unit/sim/test_hardware.h"

namespace twin::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

ModelSpec Model() {
  ModelSpec model = ModelPreset("gpt2");
  model.weight_dtype = DType::kFp32;
  model.kv_dtype = DType::kFp32;
  return model;
}

FittedCostConfig Config() {
  FittedCostConfig c;
  c.model = "gpt2";
  c.parameters = TotalParameters(Model());
  c.gemm_layers = {{1, 0.010}, {2, 0.012}, {10, 0.020}};
  c.gemm_head = {{1, 0.001}, {3, 0.003}};
  c.gemm_decode_factor = 2;
  c.gemm_prefill_factor = 3;
  c.gemm_base_s = 1e-4;
  c.attention = {.base_s = 1e-5,
                 .per_prefill_item_s = 1e-4,
                 .per_prefill_token_s = 1e-5,
                 .per_prefill_context_token_s = 1e-6,
                 .per_prefill_pair_s = 1e-7,
                 .per_decode_item_s = 2e-5,
                 .per_decode_context_token_s = 3e-6};
  c.other = {{1, 0.001}, {5, 0.005}};
  c.other_factor = 0.5;
  c.other_base_s = 2e-4;
  c.build = {1e-5, 1e-6, 1e-7};
  c.sampling = {2e-5, 3e-6, 0};
  c.schedule = {4e-5, 5e-6, 6e-7};
  c.delivery = {7e-5, 0, 0};
  c.swap_latency_s = 1e-3;
  c.per_swapped_block_s = 1e-4;
  c.tokens_max = 5;
  c.decode_items_max = 4;
  c.decode_context_tokens_max = 100;
  c.prefill_context_tokens_max = 50;
  return c;
}

// A chunk of 4 tokens at 6 that emits nothing, and a decode with 20 keys.
StepPlan MixedPlan() {
  StepPlan plan;
  plan.work.resize(2);
  plan.totals = {.prefill_tokens = 4,
                 .prefill_items = 1,
                 .prefill_context_tokens = 10,
                 .prefill_attention_pairs = 34,
                 .decode_items = 1,
                 .decode_context_tokens = 20,
                 .emitting_items = 1};
  return plan;
}

TEST(FittedCostTest, SumsItsPartsByHand) {
  const StepParts parts = *FittedCost(Config(), Model(), {}).Parts(MixedPlan());
  // 5 tokens lie 3/8 of the way from 2 to 10: 15 ms; with the head's row 3 x 16 ms + 0.1 ms.
  EXPECT_EQ(parts[StepPart::kGemm], DurationFromSeconds(0.0481));
  // 10 + 100 + 40 + 10 + 3.4 + 20 + 60 us.
  EXPECT_EQ(parts[StepPart::kAttention], DurationFromSeconds(243.4e-6));
  EXPECT_EQ(parts[StepPart::kOther], DurationFromSeconds(0.0025 + 2e-4));
  EXPECT_EQ(parts[StepPart::kBuild], DurationFromSeconds(12.5e-6));
  EXPECT_EQ(parts[StepPart::kSampling], DurationFromSeconds(23e-6));
  EXPECT_EQ(parts[StepPart::kSchedule], DurationFromSeconds(53e-6));
  EXPECT_EQ(parts[StepPart::kDelivery], DurationFromSeconds(70e-6));
}

TEST(FittedCostTest, HostDeviceAndDeliveryTimesAreTheSumsOfTheirParts) {
  const FittedCost cost(Config(), Model(), {});
  const StepPlan plan = MixedPlan();
  const StepParts parts = *cost.Parts(plan);
  std::array<Duration, 1> device{};
  cost.DeviceTimes(plan, device);
  EXPECT_EQ(device[0], parts.device());
  EXPECT_EQ(cost.HostTime(plan), parts[StepPart::kSchedule]);
  EXPECT_EQ(cost.DeliveryTime(plan), parts[StepPart::kDelivery]);
  EXPECT_EQ(parts[StepPart::kDelivery], DurationFromSeconds(70e-6));
}

TEST(FittedCostTest, ASlowerMachineTakesLongerForEveryPart) {
  FittedCostConfig config = Config();
  config.decode_slowdown = 2;
  config.prefill_slowdown = 3;
  const FittedCost slow(config, Model(), {});
  const FittedCost cost(Config(), Model(), {});
  StepPlan decodes;
  decodes.work.resize(2);
  decodes.totals = {.decode_items = 2, .decode_context_tokens = 20, .emitting_items = 2};
  const StepPlan mixed = MixedPlan();
  for (std::size_t i = 0; i < kStepPartCount; ++i) {
    EXPECT_EQ(slow.Parts(decodes)->times[i], 2 * cost.Parts(decodes)->times[i]);
    EXPECT_EQ(slow.Parts(mixed)->times[i], 3 * cost.Parts(mixed)->times[i]);
  }
  EXPECT_EQ(slow.HostTime(mixed), 3 * cost.HostTime(mixed));
  EXPECT_EQ(slow.DeliveryTime(decodes), 2 * cost.DeliveryTime(decodes));
}

TEST(FittedCostTest, DecodesAloneHaveAFactorOfTheirOwn) {
  StepPlan plan;
  plan.work.resize(2);
  plan.totals = {.decode_items = 2, .decode_context_tokens = 20, .emitting_items = 2};
  const StepParts parts = *FittedCost(Config(), Model(), {}).Parts(plan);
  EXPECT_EQ(parts[StepPart::kGemm], DurationFromSeconds(2 * (0.012 + 0.002) + 1e-4));
}

TEST(FittedCostTest, DecodesAloneAreChargedAsThoseOfTheNextBucket) {
  FittedCostConfig config = Config();
  config.decode_buckets = {1, 2, 6};
  const FittedCost cost(config, Model(), {});
  StepPlan plan;
  plan.work.resize(3);
  plan.totals = {.decode_items = 3, .decode_context_tokens = 30, .emitting_items = 3};
  const StepParts parts = *cost.Parts(plan);
  // Of 6 tokens, half way from 2 to 10: 16 ms; the head's table ends at 3 rows with 1 ms a row.
  EXPECT_EQ(parts[StepPart::kGemm], DurationFromSeconds(2 * (0.016 + 0.006) + 1e-4));
  EXPECT_EQ(parts[StepPart::kOther], DurationFromSeconds(0.5 * 0.006 + 2e-4));
  // Attention and sampling see the requests that there are.
  EXPECT_EQ(parts[StepPart::kAttention], DurationFromSeconds(1e-5 + 3 * 2e-5 + 30 * 3e-6));
  EXPECT_EQ(parts[StepPart::kSampling], DurationFromSeconds(2e-5 + 3 * 3e-6));
  // Steps beyond the last bucket, or with prefill, are not padded.
  plan.totals.decode_items = plan.totals.emitting_items = 10;
  EXPECT_EQ((*cost.Parts(plan))[StepPart::kGemm], DurationFromSeconds(2 * (0.020 + 0.010) + 1e-4));
  EXPECT_EQ(cost.Parts(MixedPlan()), FittedCost(Config(), Model(), {}).Parts(MixedPlan()));
}

// One live row of a static batch and two finished ones: 3 rows, not the bucket of one decode.
TEST(FittedCostTest, FinishedRowsOfAStaticBatchAreCharged) {
  FittedCostConfig config = Config();
  config.decode_buckets = {1, 2, 6};
  StepPlan plan;
  plan.work.resize(1);
  plan.totals = {
      .decode_items = 1, .decode_context_tokens = 10, .emitting_items = 1, .padding_tokens = 2};
  const StepParts parts = *FittedCost(config, Model(), {}).Parts(plan);
  // 3 tokens lie 1/8 of the way from 2 to 10; one row of logits.
  EXPECT_EQ(parts[StepPart::kGemm], DurationFromSeconds(2 * (0.013 + 0.001) + 1e-4));
  EXPECT_EQ(parts[StepPart::kOther], DurationFromSeconds(0.5 * 0.003 + 2e-4));
}

// As on the device, where it is a step of single tokens like decodes.
TEST(FittedCostTest, AOneTokenPrefillIsPaddedToABucket) {
  FittedCostConfig config = Config();
  config.decode_buckets = {2};
  StepPlan plan;
  plan.work.resize(1);
  plan.totals = {.prefill_tokens = 1,
                 .prefill_items = 1,
                 .prefill_context_tokens = 1,
                 .prefill_attention_pairs = 1,
                 .emitting_items = 1};
  const StepParts parts = *FittedCost(config, Model(), {}).Parts(plan);
  EXPECT_EQ(parts[StepPart::kGemm], DurationFromSeconds(2 * (0.012 + 0.002) + 1e-4));
}

TEST(FittedCostTest, ChargesSwapsToBuilding) {
  StepPlan plan;
  plan.preempted = {{RequestId{0}, Preemption::How::kSwap}};
  plan.kv.resize(3, {.kind = KvOperation::Kind::kSwapOut});
  const StepParts parts = *FittedCost(Config(), Model(), {}).Parts(plan);
  EXPECT_EQ(parts[StepPart::kBuild], DurationFromSeconds(1.3e-3));
  EXPECT_EQ(parts[StepPart::kGemm], Duration{0});
}

TEST(FittedCostTest, SaysWhichStepsAreLargerThanWhatWasMeasured) {
  const FittedCost cost(Config(), Model(), {});
  EXPECT_TRUE(cost.Covers(MixedPlan().totals));
  StepTotals tokens = MixedPlan().totals;
  ++tokens.prefill_tokens;
  EXPECT_FALSE(cost.Covers(tokens));
  StepTotals context = MixedPlan().totals;
  context.prefill_context_tokens = 51;
  EXPECT_FALSE(cost.Covers(context));
}

TEST(CostTableTest, GrowsBeyondItsEndAtTheBestRateOfAllPoints) {
  const CostTable table("t", {{1, 1.0}, {4, 2.0}, {8, 6.0}});
  EXPECT_DOUBLE_EQ(table.At(0), 0);
  EXPECT_DOUBLE_EQ(table.At(0.5), 1);
  EXPECT_DOUBLE_EQ(table.At(3), 1 + 2.0 / 3);
  EXPECT_DOUBLE_EQ(table.At(8), 6);
  EXPECT_DOUBLE_EQ(table.At(10), 6 + 2 * 0.5);  // 2 s for 4: 0.5 s each
}

TEST(FittedCostTest, RefusesWhatWasMeasuredOnSomethingElse) {
  const auto make = [](const FittedCostConfig& config, Parallelism parallelism) {
    return [config, parallelism] {
      return MakeStepCost(config, Model(), IdealHardware(), parallelism, 1);
    };
  };
  EXPECT_THAT(make(Config(), {.tensor = 2}), ThrowsMessage<InputError>(HasSubstr("one device")));
  FittedCostConfig config = Config();
  config.parameters += 1;
  EXPECT_THAT(make(config, {}), ThrowsMessage<InputError>(HasSubstr("cost.fitted.parameters")));
  config = Config();
  config.weight_dtype = DType::kBf16;
  EXPECT_THAT(make(config, {}), ThrowsMessage<InputError>(HasSubstr("bf16 with a KV cache of")));
  config = Config();
  config.gemm_layers[1].at = 1;
  EXPECT_THAT(make(config, {}), ThrowsMessage<InputError>(HasSubstr("gemm_layers: point 1")));
  config = Config();
  config.other.clear();
  EXPECT_THAT(make(config, {}), ThrowsMessage<InputError>(HasSubstr("other: is empty")));
  config = Config();
  config.decode_buckets = {2, 1};
  EXPECT_THAT(make(config, {}),
              ThrowsMessage<InputError>(HasSubstr("decode_buckets: do not ascend")));
  config = Config();
  config.attention.per_prefill_pair_s = -1;
  EXPECT_THAT(make(config, {}), ThrowsMessage<InputError>(HasSubstr("cost.fitted.attention")));
}

void ExpectPartsAddUp(const StepCost& cost, const StepPlan& plan) {
  const std::optional<StepParts> parts = cost.Parts(plan);
  ASSERT_TRUE(parts.has_value());
  std::vector<Duration> stages(static_cast<std::size_t>(cost.stages()));
  cost.DeviceTimes(plan, stages);
  Duration device{0};
  for (const Duration stage : stages) device += stage;
  EXPECT_EQ(parts->device(), device);
  EXPECT_EQ((*parts)[StepPart::kSchedule], cost.HostTime(plan));
  EXPECT_EQ((*parts)[StepPart::kDelivery], cost.DeliveryTime(plan));
}

TEST(StepCostPartsTest, AddUpToTheTimesWhereAModelKnowsThem) {
  const Parallelism split{.tensor = 2, .pipeline = 2};
  StepPlan plan = MixedPlan();
  plan.preempted = {{RequestId{0}, Preemption::How::kSwap}};
  plan.kv.resize(3, {.kind = KvOperation::Kind::kSwapOut});
  const RooflineCostConfig roofline{.host_s = 1e-4};
  ExpectPartsAddUp(*MakeStepCost(roofline, Model(), IdealHardware(), split, 1 << 20), plan);
  ExpectPartsAddUp(*MakeStepCost(Config(), Model(), IdealHardware(), {}, 1 << 20), plan);
}

TEST(StepCostPartsTest, AreUnknownToModelsOfWholeSteps) {
  for (const CostConfig& config :
       {CostConfig(ConstantCostConfig{}), CostConfig(LinearCostConfig{.base_s = 1e-3})}) {
    EXPECT_FALSE(MakeStepCost(config, Model(), IdealHardware(), {}, 1)->Parts(MixedPlan()));
  }
}

TEST(StepCostPartsTest, RooflineSumsOperationsByTheirPart) {
  const auto cost = MakeStepCost(RooflineCostConfig{}, Model(), IdealHardware(), {.tensor = 2}, 1);
  const StepParts parts = *cost->Parts(MixedPlan());
  for (const StepPart part : {StepPart::kGemm, StepPart::kAttention, StepPart::kCommunication,
                              StepPart::kOther, StepPart::kSampling}) {
    EXPECT_GT(parts[part].count(), 0) << static_cast<int>(part);
  }
  // One rank of two reads half of the 124 M weights of 4 bytes at 1 TB/s: about 0.25 ms.
  EXPECT_NEAR(Seconds(parts[StepPart::kGemm]), 0.25e-3, 0.03e-3);
}

}  // namespace
}  // namespace twin::sim
