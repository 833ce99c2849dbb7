#include "sim/cost/linear_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "core/input_error.h"

namespace twin::sim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr LinearCostConfig kConfig{.host_s = 1e-3,
                                   .host_per_item_s = 1e-5,
                                   .base_s = 2e-3,
                                   .per_prefill_token_s = 3e-6,
                                   .per_decode_item_s = 4e-5,
                                   .per_decode_context_token_s = 5e-9,
                                   .per_attention_pair_s = 6e-10,
                                   .swap_latency_s = 7e-5,
                                   .per_swapped_block_s = 8e-6};

Duration OneStage(const StepCost& cost, const StepPlan& plan) {
  std::array<Duration, 1> times{};
  cost.DeviceTimes(plan, times);
  return times[0];
}

TEST(LinearCostTest, SumsItsTerms) {
  StepPlan plan;
  plan.work.resize(21);
  plan.totals = {.prefill_tokens = 1000,
                 .prefill_items = 1,
                 .prefill_context_tokens = 1000,
                 .prefill_attention_pairs = 500'500,
                 .decode_items = 20,
                 .decode_context_tokens = 40'000};
  const LinearCost cost(kConfig, 1);
  // 2 ms + 1000 x 3 us + 20 x 40 us + 40000 x 5 ns + 500500 x 0.6 ns
  // = 2000 + 3000 + 800 + 200 + 300.3 us.
  EXPECT_EQ(OneStage(cost, plan), Duration(6'300'300));
  EXPECT_EQ(cost.HostTime(plan), Duration(1'210'000));
}

TEST(LinearCostTest, PaddingCostsAsThePhaseThatIsPadded) {
  const LinearCost cost(kConfig, 1);
  StepPlan prefill;
  prefill.totals = {.prefill_tokens = 10, .prefill_items = 1, .padding_tokens = 5};
  EXPECT_EQ(OneStage(cost, prefill), Duration(2'045'000));  // 2 ms + 15 x 3 us
  StepPlan decode;
  decode.totals = {.decode_items = 10, .padding_tokens = 5};
  EXPECT_EQ(OneStage(cost, decode), Duration(2'600'000));  // 2 ms + 15 x 40 us
}

TEST(LinearCostTest, SwappedBlocksAreCopiedByEveryStageAtOnce) {
  StepPlan plan;
  plan.preempted = {{RequestId{1}, Preemption::How::kSwap}};
  plan.resumed = {RequestId{2}};
  plan.kv = {{KvOperation::Kind::kSwapOut, RequestId{1}, BlockId{3}, BlockId{0}},
             {KvOperation::Kind::kSwapIn, RequestId{2}, BlockId{3}, BlockId{1}},
             {KvOperation::Kind::kAllocate, RequestId{2}, BlockId{4}, BlockId::kNone}};
  const LinearCost cost(kConfig, 2);
  std::array<Duration, 2> times{};
  cost.DeviceTimes(plan, times);
  EXPECT_EQ(times[0], Duration(86'000));  // 70 us + 2 x 8 us; no work, so no base
  EXPECT_EQ(times[1], Duration(86'000));
}

TEST(LinearCostTest, PreemptionByRecomputingCopiesNothing) {
  StepPlan plan;
  plan.preempted = {{RequestId{1}, Preemption::How::kRecompute}};
  plan.kv = {{KvOperation::Kind::kRelease, RequestId{1}, BlockId::kNone, BlockId::kNone}};
  EXPECT_EQ(OneStage(LinearCost(kConfig, 1), plan), Duration::zero());
}

// 100,000 s for each of 500,500 pairs are 5e10 s, five times what int64 nanoseconds can hold: they
// overflowed into negative times.
TEST(LinearCostTest, StepsBeyondAnyDeviceAreRefusedInsteadOfOverflowing) {
  LinearCostConfig config = kConfig;
  config.per_attention_pair_s = 1e5;
  StepPlan plan;
  plan.totals = {.prefill_tokens = 1000, .prefill_items = 1, .prefill_attention_pairs = 500'500};
  EXPECT_THAT([&] { OneStage(LinearCost(config, 1), plan); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("cost.linear: predicts 5005"), HasSubstr("allowed: 0 to"))));
  // 1e6 s are the limit.
  config.per_attention_pair_s = 1;
  EXPECT_GT(OneStage(LinearCost(config, 1), plan), Duration{500'500'000'000'000});
}

TEST(LinearCostTest, RefusesCoefficientsThatAreNoTimes) {
  LinearCostConfig config = kConfig;
  config.per_decode_item_s = -1e-6;
  EXPECT_THAT([&] { LinearCost(config, 1); },
              ThrowsMessage<InputError>(HasSubstr("cost.linear.per_decode_item_s")));
  config = kConfig;
  config.base_s = std::nan("");
  EXPECT_THAT([&] { LinearCost(config, 1); },
              ThrowsMessage<InputError>(HasSubstr("cost.linear.base_s")));
  EXPECT_THROW(LinearCost(LinearCostConfig{}, 1), InputError);
}

}  // namespace
}  // namespace twin::sim
