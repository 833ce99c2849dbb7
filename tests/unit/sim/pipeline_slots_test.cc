// Policy ship in a simulated pipeline: times by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "sched/policy/ship.h"
#include "sched/policy/vllm_v1.h"
#include "sim/cost/constant_cost.h"
#include "sim/cost/linear_cost.h"
#include "tests/support/scripted_run.h"
#include "tests/support/simulated_run.h"

namespace twin::sim {
namespace {

using std::chrono::milliseconds;
using testing::Asked;
using testing::At;
using ::testing::Each;
using testing::ListedSource;
using testing::SimulatedRun;

constexpr KvPoolConfig kRoomyCache{.block_size = 4, .blocks = 1000};

ShipConfig SlotsOf(std::int32_t slots, std::int32_t fill_tokens) {
  ShipConfig config;
  config.pipeline_parallel_size = slots;
  config.fill_tokens = fill_tokens;
  return config;
}

// Requests at time 0.
std::vector<TracedRequest> Burst(int users, std::int32_t prompt_tokens,
                                 std::int32_t output_tokens) {
  return std::vector<TracedRequest>(static_cast<std::size_t>(users),
                                    Asked(At(0), prompt_tokens, output_tokens));
}

struct Pace {
  std::vector<double> tpots;  // ms
  std::vector<double> longest_gaps;
};

Pace PaceOf(const SimulatedRun& run) {
  Pace pace;
  for (const RequestLife& life : run.lives) {
    pace.tpots.push_back(Milliseconds(life.ended - life.first_token) / (life.output_tokens - 1));
    pace.longest_gaps.push_back(Milliseconds(life.longest_gap));
  }
  return pace;
}

// Four stages of 1 ms.
SimulatedRun RunOnFourStages(const ShipConfig& config, std::vector<TracedRequest> requests) {
  ListedSource source(std::move(requests));
  const ConstantCost cost({.host_time = {}, .step_time = milliseconds(4)}, 4);
  return SimulatedRun(source, cost, config, kRoomyCache,
                      {.overlaps_own_steps = config.Traits().overlaps_own_steps});
}

// Three chunks of a token enter at 0, 1 and 2 ms, or at 0, 4 and 8 ms.
TEST(PipelineSlotsTest, TheFirstTokenComesAfterAllChunksHavePassedTheStages) {
  ShipConfig config = SlotsOf(4, 1);
  EXPECT_EQ(RunOnFourStages(config, Burst(1, 3, 2)).Life(0).first_token, At(6));
  config.prompt_slots = ShipConfig::PromptSlots::kOwn;
  EXPECT_EQ(RunOnFourStages(config, Burst(1, 3, 2)).Life(0).first_token, At(12));
}

// One token for each turn of the pipe, whoever else is in it.
TEST(PipelineSlotsTest, UpToAsManyUsersAsSlotsHaveThePaceOfOne) {
  for (const auto prompt_slots : {ShipConfig::PromptSlots::kAll, ShipConfig::PromptSlots::kOwn}) {
    for (int users = 1; users <= 4; ++users) {
      ShipConfig config = SlotsOf(4, 1);
      config.prompt_slots = prompt_slots;
      const Pace pace = PaceOf(RunOnFourStages(config, Burst(users, 3, 20)));
      EXPECT_EQ(pace.tpots.size(), static_cast<std::size_t>(users));
      EXPECT_THAT(pace.tpots, Each(4.0)) << users;
      EXPECT_THAT(pace.longest_gaps, Each(4.0)) << users;
    }
  }
}

TEST(PipelineSlotsTest, AFifthUserOnFourSlotsSlowsNobodyDown) {
  const SimulatedRun run = RunOnFourStages(SlotsOf(4, 20), Burst(5, 3, 20));
  const Pace pace = PaceOf(run);
  EXPECT_THAT(pace.tpots, Each(4.0));
  EXPECT_THAT(pace.longest_gaps, Each(4.0));
  for (const SimulatedRun::Launched& step : run.launches) EXPECT_LE(step.plan.work.size(), 2u);
}

// A step takes 80 ms and 8 ms for each of its tokens. Each of 80 users has a step of its own, 88
// ms; together in one step they take 80 + 80 * 8 = 720 ms.
TEST(PipelineSlotsTest, ABurstOfAsManyUsersAsStagesHasThePaceOfOne) {
  LinearCostConfig times;
  times.base_s = 0.08;
  times.per_prefill_token_s = times.per_decode_item_s = 0.008;
  const LinearCost cost(times, 80);
  ListedSource source(Burst(80, 1, 5));
  const SimulatedRun slots(source, cost, SlotsOf(80, 20), kRoomyCache,
                           {.overlaps_own_steps = true});
  EXPECT_EQ(slots.launches.size(), 400u);
  EXPECT_THAT(PaceOf(slots).tpots, Each(88.0));

  VllmV1Config config;
  config.max_model_len = 4096;
  config.pipeline_parallel_size = 80;
  ListedSource again(Burst(80, 1, 5));
  const SimulatedRun together(again, cost, config, kRoomyCache, {.overlaps_own_steps = true});
  EXPECT_EQ(together.launches.size(), 5u);
  EXPECT_THAT(PaceOf(together).tpots, Each(720.0));
}

}  // namespace
}  // namespace twin::sim
