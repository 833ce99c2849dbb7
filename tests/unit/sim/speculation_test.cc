// Speculative decoding in the simulated world.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "config/models/model_names.h"
#include "sched/policy/vllm_v1.h"
#include "sim/cost/constant_cost.h"
#include "sim/cost/draft_cost.h"
#include "sim/cost/linear_cost.h"
#include "sim/devices/kv_capacity.h"
#include "sim/world/acceptance.h"
#include "sim/world/acceptance_length.h"
#include "tests/support/listed_source.h"
#include "tests/support/scripted_run.h"
#include "tests/support/simulated_run.h"
#include "tests/unit/sim/test_hardware.h"

namespace twin::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::Asked;
using testing::At;
using testing::ListedSource;
using testing::SimulatedRun;

constexpr KvPoolConfig kRoomyCache{.block_size = 16, .blocks = 10'000};

VllmV1Config Speculating(std::int32_t drafts, bool async) {
  VllmV1Config config;
  config.max_num_batched_tokens = 64;
  config.max_num_seqs = 4;
  config.max_model_len = 100'000;
  config.async_scheduling = async;
  config.speculation = {.method = SpecMethod::kDraftModel, .num_speculative_tokens = drafts};
  return config;
}

SimWorldOptions Accepting(std::vector<double> rates, std::int32_t offered) {
  SimWorldOptions options;
  options.acceptance = AcceptanceConfig{.rates = std::move(rates)};
  options.drafts_offered = offered;
  options.seed = 5;
  return options;
}

// Steps of 10 ms in which a prompt of 8 gets `output` tokens.
std::int64_t StepsOf(std::int32_t output, const VllmV1Config& policy,
                     const SimWorldOptions& options) {
  ListedSource source({Asked(At(0), 8, output)});
  const ConstantCost cost({.host_time = {}, .step_time = milliseconds(10)}, 1);
  const SimulatedRun run(source, cost, policy, kRoomyCache, options);
  EXPECT_EQ(run.Life(0).output_tokens, output);
  EXPECT_EQ(run.Life(0).ended, At(10 * static_cast<double>(run.launches.size())));
  return static_cast<std::int64_t>(run.launches.size());
}

// The prompt yields 1 token, and each later step 1 + 4: 1 + 5 + 5.
TEST(SpeculationTest, AcceptedDraftsComeInOneStep) {
  EXPECT_EQ(StepsOf(11, Speculating(4, false), Accepting({1.0}, 4)), 3);
  EXPECT_EQ(StepsOf(12, Speculating(4, false), Accepting({1.0}, 4)), 4);
}

TEST(SpeculationTest, RejectedDraftsLeaveOneTokenPerStep) {
  EXPECT_EQ(StepsOf(11, Speculating(4, false), Accepting({0.0}, 4)), 11);
}

TEST(SpeculationTest, WhatIsNotProposedIsNotVerified) {
  SimWorldOptions options = Accepting({1.0}, 4);
  options.acceptance->proposal_rate = 0;
  EXPECT_EQ(StepsOf(11, Speculating(4, false), options), 11);
}

// 0.8 + 0.8^2 + ...: E = (1 - 0.8^5) / (1 - 0.8) = 3.3616 tokens per step. The standard deviation
// of one step is below 2, that of the mean of 9,000 steps below 0.021.
TEST(SpeculationTest, TokensPerStepAreTheExpectedOnes) {
  const double steps =
      static_cast<double>(StepsOf(30'000, Speculating(4, false), Accepting({0.8}, 4)));
  EXPECT_NEAR(30'000 / steps, 3.3616, 0.08);
}

// 1 + 0.9 + 0.9 * 0.5 + 0.9 * 0.5 * 0.5 = 2.575.
TEST(SpeculationTest, RatesAreThoseOfTheirPositions) {
  const double steps =
      static_cast<double>(StepsOf(30'000, Speculating(3, false), Accepting({0.9, 0.5}, 3)));
  EXPECT_NEAR(30'000 / steps, 2.575, 0.08);
}

// The next step is planned before the drafts of the last one are judged, which are assumed to be 4.
TEST(SpeculationTest, AssumedDraftsYieldAsMuch) {
  ListedSource source({Asked(At(0), 8, 30'000)});
  const ConstantCost cost({.host_time = {}, .step_time = milliseconds(10)}, 1);
  const SimulatedRun run(source, cost, Speculating(4, true), kRoomyCache, Accepting({0.8}, 0));
  EXPECT_EQ(run.Life(0).output_tokens, 30'000);
  EXPECT_NEAR(30'000.0 / static_cast<double>(run.launches.size()), 3.3616, 0.08);
}

// Whatever else is in the batch, a request meets the same luck.
TEST(SpeculationTest, LuckIsThatOfTheRequest) {
  const AcceptanceConfig config{.rates = {0.5}};
  const Acceptance acceptance(config, 3, 1);
  std::int32_t accepted = 0;
  for (std::int32_t place = 0; place < 100; ++place) {
    const std::int32_t of_three = acceptance.Accepted(RequestId{7}, place, 3);
    // With fewer drafts the same ones are accepted.
    EXPECT_EQ(acceptance.Accepted(RequestId{7}, place, 1), std::min(of_three, 1));
    accepted += of_three;
  }
  EXPECT_NE(accepted, 0);
}

// At a rate of 0.5, of three drafts 0, 1, 2 and 3 are
// accepted with probability .5, .25, .125 and .125. 0.01 is three standard errors of the shares.
TEST(SpeculationTest, ARateGivesItsDistributionOfAcceptedDrafts) {
  const AcceptanceConfig config{.rates = {0.5}};
  const Acceptance acceptance(config, 3, 1);
  constexpr int kSteps = 22'500;
  std::array<int, 4> steps{};
  for (int step = 0; step < kSteps; ++step) {
    ++steps[static_cast<std::size_t>(acceptance.Accepted(RequestId{7}, 4 * step, 3))];
  }
  constexpr std::array<double, 4> kExpected{0.5, 0.25, 0.125, 0.125};
  for (std::size_t accepted = 0; accepted < kExpected.size(); ++accepted) {
    EXPECT_NEAR(static_cast<double>(steps[accepted]) / kSteps, kExpected[accepted], 0.01);
  }
}

StepPlan TwoVerifications() {
  StepPlan plan;
  for (const std::uint32_t request : {0U, 1U}) {
    plan.work.push_back({.request = RequestId{request},
                         .start = 100,
                         .tokens = 4,
                         .phase = Phase::kDecode,
                         .emits = true,
                         .drafts = 3});
  }
  plan.totals = {.prefill_tokens = 8,
                 .prefill_items = 2,
                 .prefill_context_tokens = 208,
                 .emitting_items = 2,
                 .draft_items = 2,
                 .draft_tokens = 6};
  return plan;
}

// Target: 10 + 8 * 1 ms. Draft model: 1 + 8 * 0.1 ms, and twice 1 + 2 * 0.2 ms. With 0.5 ms beside:
// 18 + 1.8 + 2.8 + 0.5.
// 1 + 0.8 + 0.64 + 0.512 tokens.
TEST(AcceptanceLengthTest, ARateGivesTheGeometricSumOfItsPowers) {
  EXPECT_NEAR(AcceptanceRateOf(2.952, 3), 0.8, 1e-12);
  EXPECT_NEAR(AcceptanceRateOf(1.5, 1), 0.5, 1e-12);
  EXPECT_NEAR(AcceptanceRateOf(1, 4), 0, 1e-12);
  EXPECT_NEAR(AcceptanceRateOf(5, 4), 1, 1e-12);
}

TEST(AcceptanceLengthTest, ModelsHaveTheLengthsMeasuredForTheirProposer) {
  EXPECT_EQ(MeasuredAcceptanceLength("glm-5.2", SpecMethod::kMtp, 3), 2.99);
  EXPECT_EQ(MeasuredAcceptanceLength("glm-5.2-fp8", SpecMethod::kMtp, 1), 1.84);
  EXPECT_EQ(MeasuredAcceptanceLength("kimi-k2.5", SpecMethod::kEagle, 8), 3.77);
  EXPECT_EQ(MeasuredAcceptanceLength("kimi-k2.5", SpecMethod::kMtp, 3), std::nullopt);
  EXPECT_EQ(MeasuredAcceptanceLength("glm-5.2", SpecMethod::kMtp, 9), std::nullopt);
  EXPECT_EQ(MeasuredAcceptanceLength("glm-5.2", SpecMethod::kMtp, 0), std::nullopt);
}

TEST(DraftCostTest, AddsThePassesOfTheDraftModel) {
  const auto target = std::make_shared<LinearCost>(
      LinearCostConfig{.base_s = 10e-3, .per_prefill_token_s = 1e-3}, 2);
  const auto draft = std::make_shared<LinearCost>(
      LinearCostConfig{.base_s = 1e-3, .per_prefill_token_s = 0.1e-3, .per_decode_item_s = 0.2e-3},
      1);
  const DraftCost cost(target, {.model = draft, .drafts = 3, .per_step = microseconds(500)});
  ASSERT_EQ(cost.stages(), 2);
  Duration alone[2];
  target->DeviceTimes(TwoVerifications(), alone);
  Duration times[2];
  cost.DeviceTimes(TwoVerifications(), times);
  EXPECT_EQ(alone[0] + alone[1], milliseconds(18));
  EXPECT_EQ(times[0], alone[0]);
  EXPECT_EQ(times[1] - alone[1], microseconds(1800 + 2800 + 500));
}

// As vLLM V0 does with speculative_disable_by_batch_size.
TEST(DraftCostTest, ProposesNothingWhereTooManyRun) {
  const auto target = std::make_shared<LinearCost>(
      LinearCostConfig{.base_s = 10e-3, .per_prefill_token_s = 1e-3}, 1);
  const auto draft = std::make_shared<LinearCost>(LinearCostConfig{.base_s = 1e-3}, 1);
  const DraftCost cost(target, {.model = draft, .drafts = 3, .off_from_running = 3});
  const auto time = [](const StepCost& of, std::int32_t running) {
    StepPlan plan = TwoVerifications();
    plan.running = running;
    Duration device{0};
    of.DeviceTimes(plan, {&device, 1});
    return device;
  };
  EXPECT_EQ(time(cost, 2) - time(*target, 2), milliseconds(3));
  EXPECT_EQ(time(cost, 3), time(*target, 3));
}

// Llama-3.2-1B beside Llama-3-8B: its weights leave less, and each block holds its keys and values,
// too: 16 tokens x 16 layers x 2 x 8 heads x 64 x 2 bytes = 524,288.
TEST(SpeculationTest, ADraftModelTakesMemory) {
  const MemoryConfig config{.max_step_tokens = 4096,
                            .activation_bytes = 1'500'000'000,
                            .non_framework_bytes = 1'000'000'000};
  const ModelSpec draft = ModelPreset("llama-3.2-1b");
  const KvCapacity alone = PlanKvCapacity(ModelPreset("llama-3-8b"), IdealHardware(), {}, config);
  const KvCapacity both =
      PlanKvCapacity(ModelPreset("llama-3-8b"), IdealHardware(), {}, config, &draft);
  EXPECT_EQ(both.block_bytes, alone.block_bytes + 524'288);
  EXPECT_EQ(both.weight_bytes, alone.weight_bytes + WeightBytesPerRank(draft, {}, 0));
  EXPECT_EQ(both.blocks, (alone.kv_bytes - WeightBytesPerRank(draft, {}, 0)) / both.block_bytes);
}

}  // namespace
}  // namespace twin::sim
