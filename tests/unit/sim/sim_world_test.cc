#include "sim/world/sim_world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "sched/policy/orca.h"
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
using ::testing::ElementsAre;
using testing::ListedSource;
using ::testing::Pair;
using testing::SimulatedRun;

constexpr KvPoolConfig kRoomyCache{.block_size = 4, .blocks = 1000};

VllmV1Config ChunksOf(std::int32_t tokens) {
  VllmV1Config config;
  config.max_num_batched_tokens = tokens;
  config.max_num_seqs = 4;
  config.max_model_len = 4096;
  return config;
}

OrcaConfig OneAtATime(std::int32_t batches) {
  OrcaConfig config;
  config.max_bs = 1;
  config.n_workers = batches;
  return config;
}

// Begin and end in milliseconds.
std::vector<std::pair<double, double>> StagesOf(const SimulatedRun::Launched& step) {
  std::vector<std::pair<double, double>> spans;
  for (const SimWorld::StageSpan& span : step.stages) {
    spans.emplace_back(Milliseconds(span.begin.time_since_epoch()),
                       Milliseconds(span.end.time_since_epoch()));
  }
  return spans;
}

std::vector<std::pair<double, std::string>> InstantsOf(const SimulatedRun& run) {
  std::vector<std::pair<double, std::string>> instants;
  for (const SimulatedRun::Reported& told : run.instants) {
    instants.emplace_back(Milliseconds(told.now.time_since_epoch()), told.events);
  }
  return instants;
}

// Chunks of 8 tokens, 10 ms a step. The steps, by their begin in ms:
//   5: 8 of request 0   15: 8 of 0 (1 came at 12)   25: 4 of 0, all 4 of 1   35: both   45: 0
TEST(SimWorldTest, RequestsFollowATimelineDerivedByHand) {
  ListedSource source({Asked(At(5), 20, 3), Asked(At(12), 4, 2)});
  const ConstantCost cost({.host_time = {}, .step_time = milliseconds(10)}, 1);
  const SimulatedRun run(source, cost, ChunksOf(8), kRoomyCache);

  EXPECT_THAT(InstantsOf(run),
              ElementsAre(Pair(5, "A"), Pair(12, "A"), Pair(15, "S"), Pair(25, "S"), Pair(35, "S"),
                          Pair(45, "S"), Pair(55, "S")));
  const RequestLife& first = run.Life(0);
  EXPECT_EQ(first.scheduled, At(5));
  EXPECT_EQ(first.first_token, At(35));
  EXPECT_EQ(first.ended, At(55));
  EXPECT_EQ(first.output_tokens, 3);
  const RequestLife& second = run.Life(1);
  EXPECT_EQ(second.scheduled, At(25));
  EXPECT_EQ(second.first_token, At(35));
  EXPECT_EQ(second.ended, At(45));
  EXPECT_EQ(second.output_tokens, 2);
}

// 10 tokens of prompt: 1 + 10 * 0.1 = 2 ms. The decodes read 11 and 12 keys:
// 1 + 0.5 + 11 * 0.01 = 1.61 ms and 1.62 ms.
TEST(SimWorldTest, StepsTakeWhatTheCostModelSays) {
  ListedSource source({Asked(At(1), 10, 3)});
  const LinearCost cost({.base_s = 1e-3,
                         .per_prefill_token_s = 1e-4,
                         .per_decode_item_s = 5e-4,
                         .per_decode_context_token_s = 1e-5},
                        1);
  const SimulatedRun run(source, cost, ChunksOf(64), kRoomyCache);

  EXPECT_EQ(run.Life(0).first_token, TimePoint{Duration{3'000'000}});
  EXPECT_EQ(run.launches[1].finished, TimePoint{Duration{4'610'000}});
  EXPECT_EQ(run.Life(0).ended, TimePoint{Duration{6'230'000}});
}

// Host 1 ms, two stages of 4 ms: 9 ms a step. The next one is planned when the last has left, so
// the first stage stands idle from 5 to 10 ms.
TEST(SimWorldTest, OneStepInFlightLeavesBubblesInThePipeline) {
  ListedSource source({Asked(At(0), 4, 3)});
  const ConstantCost cost({.host_time = milliseconds(1), .step_time = milliseconds(8)}, 2);
  const SimulatedRun run(source, cost, OneAtATime(1), kRoomyCache);

  ASSERT_EQ(run.launches.size(), 3u);
  EXPECT_THAT(StagesOf(run.launches[0]), ElementsAre(Pair(1, 5), Pair(5, 9)));
  EXPECT_THAT(StagesOf(run.launches[1]), ElementsAre(Pair(10, 14), Pair(14, 18)));
  EXPECT_THAT(StagesOf(run.launches[2]), ElementsAre(Pair(19, 23), Pair(23, 27)));
  EXPECT_EQ(run.launches[1].planned, At(9));
  EXPECT_EQ(run.launches[1].started, At(10));
  EXPECT_EQ(run.launches[1].finished, At(18));
  EXPECT_EQ(run.Life(0).ended, At(27));
}

// Two requests alternate. Planned at 0: both; the host is free for the second at 1, the first stage
// at 5. From then on each is planned 1 ms before the first stage takes it:
//
//   planned   host    stage 0   stage 1
//   0         0-1     1-5       5-9
//   0         1-2     5-9       9-13
//   9         9-10    10-14     14-18     (stage 1 idle 13-14)
//   13        13-14   14-18     18-22
//   18        18-19   19-23     23-27
//   22        22-23   23-27     27-31
TEST(SimWorldTest, TwoStepsInFlightFillThePipeline) {
  ListedSource source({Asked(At(0), 4, 3), Asked(At(0), 4, 3)});
  const ConstantCost cost({.host_time = milliseconds(1), .step_time = milliseconds(8)}, 2);
  const SimulatedRun run(source, cost, OneAtATime(2), kRoomyCache);

  ASSERT_EQ(run.launches.size(), 6u);
  EXPECT_THAT(StagesOf(run.launches[0]), ElementsAre(Pair(1, 5), Pair(5, 9)));
  EXPECT_THAT(StagesOf(run.launches[1]), ElementsAre(Pair(5, 9), Pair(9, 13)));
  EXPECT_THAT(StagesOf(run.launches[2]), ElementsAre(Pair(10, 14), Pair(14, 18)));
  EXPECT_THAT(StagesOf(run.launches[3]), ElementsAre(Pair(14, 18), Pair(18, 22)));
  EXPECT_THAT(StagesOf(run.launches[4]), ElementsAre(Pair(19, 23), Pair(23, 27)));
  EXPECT_THAT(StagesOf(run.launches[5]), ElementsAre(Pair(23, 27), Pair(27, 31)));
  EXPECT_EQ(run.launches[1].started, At(5));
  EXPECT_EQ(run.Life(0).ended, At(27));
  EXPECT_EQ(run.Life(1).ended, At(31));
}

// Host 1 ms, device 4 ms, three tokens. Each step is planned while its predecessor runs, so only
// the first one's host time is seen: 1 + 3 * 4; one step at a time takes 3 * (1 + 4).
TEST(SimWorldTest, PlanningAheadHidesTheHost) {
  const ConstantCost cost({.host_time = milliseconds(1), .step_time = milliseconds(4)}, 1);
  VllmV1Config config = ChunksOf(64);
  ListedSource source({Asked(At(0), 4, 3)});
  EXPECT_EQ(SimulatedRun(source, cost, config, kRoomyCache).Life(0).ended, At(15));

  config.async_scheduling = true;
  ListedSource again({Asked(At(0), 4, 3)});
  const SimulatedRun ahead(again, cost, config, kRoomyCache);
  ASSERT_EQ(ahead.launches.size(), 3u);
  EXPECT_EQ(ahead.launches[1].planned, At(0));
  EXPECT_EQ(ahead.launches[1].started, At(5));
  EXPECT_EQ(ahead.launches[2].planned, At(5));
  EXPECT_EQ(ahead.launches[2].started, At(9));
  EXPECT_EQ(ahead.Life(0).ended, At(13));
}

// Host 1 ms, device 4 ms, delivery 2 ms.
class DeliveringCost final : public StepCost {
 public:
  [[nodiscard]] Duration HostTime(const StepPlan& /*plan*/) const override {
    return milliseconds(1);
  }
  void DeviceTimes(const StepPlan& /*plan*/, std::span<Duration> stage_times) const override {
    stage_times[0] = milliseconds(4);
  }
  [[nodiscard]] Duration DeliveryTime(const StepPlan& /*plan*/) const override {
    return milliseconds(2);
  }
};

// One step at a time takes 1 + 4 + 2 ms. With the next step planned ahead:
//
//   planned   host   device   delivered
//   0         0-1    1-5      7
//   0         1-2    5-9      11          (the device does not wait for the delivery)
//   7         7-8    9-13     15
TEST(SimWorldTest, ResultsAreDeliveredAfterTheDeviceWhichIsFreeMeanwhile) {
  const DeliveringCost cost;
  VllmV1Config config = ChunksOf(64);
  ListedSource source({Asked(At(0), 4, 3)});
  const SimulatedRun one(source, cost, config, kRoomyCache);
  EXPECT_EQ(one.launches[0].started, At(1));
  EXPECT_EQ(one.launches[0].finished, At(7));
  EXPECT_EQ(one.Life(0).ended, At(21));

  config.async_scheduling = true;
  ListedSource again({Asked(At(0), 4, 3)});
  const SimulatedRun ahead(again, cost, config, kRoomyCache);
  ASSERT_EQ(ahead.launches.size(), 3u);
  EXPECT_EQ(ahead.launches[1].started, At(5));
  EXPECT_EQ(ahead.launches[1].finished, At(11));
  EXPECT_EQ(ahead.launches[2].planned, At(7));
  EXPECT_EQ(ahead.launches[2].started, At(9));
  EXPECT_EQ(ahead.Life(0).ended, At(15));
}

// 4 ms, and half of the step before if the device did not rest between them.
class TiringCost final : public StepCost {
 public:
  [[nodiscard]] Duration HostTime(const StepPlan& /*plan*/) const override { return {}; }
  void DeviceTimes(const StepPlan& /*plan*/, std::span<Duration> /*times*/) const override {
    ADD_FAILURE() << "the world must ask for the time in the device's state";
  }
  [[nodiscard]] bool remembers() const override { return true; }
  [[nodiscard]] Duration StageTime(const StepPlan& /*plan*/, int /*stage*/, TimePoint begin,
                                   const DeviceState& state) const override {
    return milliseconds(4) + (begin == state.changed ? state.last_step / 2 : Duration{0});
  }
  void Advance(const StepPlan& /*plan*/, TimePoint begin, TimePoint end,
               DeviceState& state) const override {
    state.last_step = end - begin;
    state.changed = end;
  }
};

// Three steps without a rest take 4, 4 + 2 and 4 + 3 ms; after a rest, 4 ms again.
TEST(SimWorldTest, TheDeviceRemembersWhatItDid) {
  const TiringCost cost;
  ListedSource source({Asked(At(0), 4, 3), Asked(At(40), 4, 1)});
  const SimulatedRun run(source, cost, ChunksOf(64), kRoomyCache);
  ASSERT_EQ(run.launches.size(), 4u);
  EXPECT_EQ(run.launches[0].finished, At(4));
  EXPECT_EQ(run.launches[1].finished, At(10));
  EXPECT_EQ(run.launches[2].finished, At(17));
  EXPECT_EQ(run.launches[3].finished, At(44));
}

// Two stages of 5 ms and one request: a token cannot be built upon before it is back, so every step
// passes both stages before the next one is planned, 3 * 10 ms.
TEST(SimWorldTest, APipelineWaitsForTheTokensOfARequest) {
  ListedSource source({Asked(At(0), 4, 3)});
  const ConstantCost cost({.host_time = {}, .step_time = milliseconds(10)}, 2);
  VllmV1Config config = ChunksOf(64);
  config.pipeline_parallel_size = 2;
  const SimulatedRun run(source, cost, config, kRoomyCache);
  ASSERT_EQ(run.launches.size(), 3u);
  EXPECT_EQ(run.launches[1].planned, At(10));
  EXPECT_EQ(run.launches[2].planned, At(20));
  EXPECT_EQ(run.Life(0).ended, At(30));
}

// The same planned ahead: a step whose input the last stage has not sampled yet waits for it.
TEST(SimWorldTest, AStepPlannedAheadInAPipelineWaitsForTheTokensOfARequest) {
  ListedSource source({Asked(At(0), 4, 3)});
  const ConstantCost cost({.host_time = {}, .step_time = milliseconds(10)}, 2);
  VllmV1Config config = ChunksOf(64);
  config.pipeline_parallel_size = 2;
  config.release = VllmV1Release::k0_33_0;
  config.async_scheduling = true;
  const SimulatedRun run(source, cost, config, kRoomyCache, {.overlaps_own_steps = true});
  EXPECT_EQ(run.Life(0).ended, At(30));
}

// Nobody else fits into the batch, so the second request can start only behind the first one's end.
TEST(SimWorldTest, ResultsComeBeforeArrivalsOfTheSameTime) {
  ListedSource source({Asked(At(0), 4, 1), Asked(At(10), 4, 1)});
  const ConstantCost cost({.host_time = {}, .step_time = milliseconds(10)}, 1);
  const SimulatedRun run(source, cost, OneAtATime(1), kRoomyCache);

  EXPECT_THAT(InstantsOf(run), ElementsAre(Pair(0, "A"), Pair(10, "SA"), Pair(20, "S")));
  EXPECT_EQ(run.Life(1).scheduled, At(10));
}

// Request 1 can never be served; its rejection is a step without work, which ends in its turn,
// together with the step in flight. Request 2 comes at just that time.
TEST(SimWorldTest, AllResultsOfATimeComeTogetherAndBeforeItsArrivals) {
  ListedSource source({Asked(At(0), 4, 2), Asked(At(3), 5000, 1), Asked(At(10), 4, 1)});
  const ConstantCost cost({.host_time = {}, .step_time = milliseconds(10)}, 1);
  VllmV1Config config = ChunksOf(64);
  config.pipeline_parallel_size = 3;
  const SimulatedRun run(source, cost, config, kRoomyCache);

  EXPECT_THAT(InstantsOf(run),
              ElementsAre(Pair(0, "A"), Pair(3, "A"), Pair(10, "SSA"), Pair(20, "S")));
  EXPECT_EQ(run.Life(1).status, RequestStatus::kRejected);
  EXPECT_EQ(run.Life(2).ended, At(20));
}

// A step without work takes the host's time alone and no stage.
TEST(SimWorldTest, ARejectionAloneTakesOnlyTheHost) {
  ListedSource source({Asked(At(2), 5000, 1)});
  const ConstantCost cost({.host_time = milliseconds(1), .step_time = milliseconds(10)}, 1);
  const SimulatedRun run(source, cost, ChunksOf(64), kRoomyCache);

  ASSERT_EQ(run.launches.size(), 1u);
  EXPECT_TRUE(run.launches[0].stages.empty());
  EXPECT_EQ(run.launches[0].finished, At(3));
  EXPECT_THAT(source.done, ElementsAre(Pair(RequestId{0}, At(2))));
}

TEST(SimWorldTest, TellsTheSourceWhenEveryRequestIsDone) {
  ListedSource source({Asked(At(0), 4, 2), Asked(At(0), 4, 1)});
  const ConstantCost cost({.host_time = {}, .step_time = milliseconds(10)}, 1);
  const SimulatedRun run(source, cost, ChunksOf(64), kRoomyCache);
  EXPECT_THAT(source.done, ElementsAre(Pair(RequestId{1}, At(10)), Pair(RequestId{0}, At(20))));
}

TEST(SimWorldTest, NothingHappensWithoutRequests) {
  ListedSource source({});
  const ConstantCost cost({}, 1);
  SimWorld world(source, cost, {});
  EXPECT_TRUE(world.Advance(kTimeNever).events.empty());
  EXPECT_EQ(world.now(), kTimeZero);
}

TEST(SimWorldTest, WakesTheEngineAtItsTimeUnlessSomethingHappensBefore) {
  ListedSource source({Asked(At(5), 4, 1)});
  const ConstantCost cost({}, 1);
  SimWorld world(source, cost, {});
  const Instant woken = world.Advance(At(3));
  EXPECT_EQ(woken.now, At(3));
  ASSERT_EQ(woken.events.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<WakeUp>(woken.events[0]));

  const Instant arrived = world.Advance(At(5));
  EXPECT_EQ(arrived.now, At(5));
  ASSERT_EQ(arrived.events.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<RequestArrived>(arrived.events[0]));
  EXPECT_EQ(world.Advance(At(9)).now, At(9));
}

// Gaps of 0 to 3 ms against steps of 1 ms make many equal times. Preemptions and rejections occur.
TEST(SimWorldTest, TimeNeverGoesBackAndEveryInstantIsInOrder) {
  Random random(3, "instants");
  std::vector<TracedRequest> requests;
  std::int64_t now_ms = 0;
  for (int i = 0; i < 2000; ++i) {
    now_ms += random.UniformInt(0, 3);
    requests.push_back(Asked(At(static_cast<double>(now_ms)),
                             static_cast<std::int32_t>(random.UniformInt(1, 70)),
                             static_cast<std::int32_t>(random.UniformInt(1, 6))));
  }
  ListedSource source(std::move(requests));
  const ConstantCost cost({.host_time = {}, .step_time = milliseconds(1)}, 1);
  VllmV1Config config = ChunksOf(32);
  config.async_scheduling = true;
  config.max_model_len = 66;
  const SimulatedRun run(source, cost, config, {.block_size = 4, .blocks = 20},
                         {.max_model_length = 66});

  const std::string order = "SCAW";
  int together = 0;
  TimePoint last = TimePoint::min();
  for (const SimulatedRun::Reported& told : run.instants) {
    EXPECT_GE(told.now, last);
    last = told.now;
    EXPECT_TRUE(std::is_sorted(told.events.begin(), told.events.end(), [&](char a, char b) {
      return order.find(a) < order.find(b);
    })) << told.events;
    if (told.events.starts_with("S") && told.events.ends_with("A")) ++together;
  }
  EXPECT_GT(together, 500);
  EXPECT_EQ(run.lives.size(), 2000u);
}

}  // namespace
}  // namespace twin::sim
