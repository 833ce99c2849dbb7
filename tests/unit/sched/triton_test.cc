#include "sched/policy/triton.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/input_error.h"
#include "sched/engine.h"
#include "sched/testing/scene.h"

namespace twin::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::Pair;

using Ids = std::string;  // "ABC"

constexpr TimePoint At(std::int64_t ms) { return kTimeZero + milliseconds(ms); }

// Batches of requests with one token: a batch is one step, of 20 ms.
Scene SceneOf(const TritonConfig& config) {
  return Scene(std::make_unique<TritonPolicy>(config), {.block_size = 1, .step = milliseconds(20)});
}

// The ids of the batch that is sent now, empty if none is.
Ids Sent(const Batch& batch) {
  Ids ids;
  for (const BatchItem& item : batch.items) ids += item.request;
  return ids;
}

std::vector<SceneRequest> Arrivals(const std::vector<std::int64_t>& times_ms) {
  std::vector<SceneRequest> requests;
  for (const std::int64_t ms : times_ms) {
    requests.push_back({.output = 1, .after = milliseconds(ms)});
  }
  return requests;
}

// Arrivals A@0 B@3 C@9 D@12 E@13 F@14 G@15 H@16, one copy.
std::vector<std::pair<std::int64_t, Ids>> RunExample1c(std::int64_t delay_ms) {
  Scene scene = SceneOf({.max_batch_size = 4,
                         .preferred_batch_size = {4},
                         .max_queue_delay_microseconds = delay_ms * 1000});
  scene.Given({.waiting = Arrivals({0, 3, 9, 12, 13, 14, 15, 16})});
  std::vector<std::pair<std::int64_t, Ids>> batches;
  for (Batch batch = scene.NextBatch(); !batch.empty(); batch = scene.NextBatch()) {
    batches.emplace_back(Nanoseconds(scene.now()) / 1'000'000, Sent(batch));
  }
  return batches;
}

TEST(TritonTest, Example1c) {
  EXPECT_THAT(RunExample1c(10), ElementsAre(Pair(10, "ABC"), Pair(30, "DEFG"), Pair(50, "H")));
}

TEST(TritonTest, Example1cWithoutADelay) {
  EXPECT_THAT(RunExample1c(0), ElementsAre(Pair(0, "A"), Pair(20, "BCDE"), Pair(40, "FGH")));
}

// A is sent at 10 ms, when its window ends. At 30 ms three can be sent, and C, D and E, the first
// in the order, have not waited for the window: the preferred two go. At 50 ms B is one of those
// left.
TEST(TritonTest, TheWindowIsThatOfTheOldestAmongTheFirstInTheOrder) {
  Scene scene = SceneOf({.max_batch_size = 3,
                         .preferred_batch_size = {2},
                         .max_queue_delay_microseconds = 10'000,
                         .order = OrderConfig{.kind = OrderConfig::Kind::kPriority}});
  std::vector<SceneRequest> requests = Arrivals({0, 12, 25, 26, 27});
  requests[1].priority = 9;
  scene.Given({.waiting = requests});
  EXPECT_EQ(Sent(scene.NextBatch()), "A");
  EXPECT_EQ(scene.now(), At(10));
  EXPECT_EQ(Sent(scene.NextBatch()), "CD");
  EXPECT_EQ(scene.now(), At(30));
  EXPECT_EQ(Sent(scene.NextBatch()), "EB");
  EXPECT_EQ(scene.now(), At(50));
}

TEST(TritonTest, WaitsUntilTheWindowOfTheOldestEnds) {
  Scene scene = SceneOf({.max_batch_size = 4, .max_queue_delay_microseconds = 10'000});
  scene.Given({.waiting = Arrivals({2, 5})});
  scene.WaitUntil(At(5));
  EXPECT_EQ(scene.BatchNow(), Batch());
  EXPECT_EQ(scene.engine().wake_at(), At(12));
  EXPECT_EQ(Sent(scene.NextBatch()), "AB");
  EXPECT_EQ(scene.now(), At(12));
  EXPECT_EQ(scene.engine().wake_at(), kTimeNever);
}

TEST(TritonTest, ThePreferredSizeIsSentBeforeItsWindowEndsAndOverruledBehindIt) {
  const TritonConfig config = {
      .max_batch_size = 8, .preferred_batch_size = {4, 2}, .max_queue_delay_microseconds = 10'000};
  Scene before = SceneOf(config);
  before.Given({.waiting = Arrivals({0, 0, 0})});
  before.WaitUntil(At(9));
  EXPECT_EQ(Sent(before.BatchNow()), "AB");
  Scene behind = SceneOf(config);
  behind.Given({.waiting = Arrivals({0, 0, 0})});
  behind.WaitUntil(At(10));
  EXPECT_EQ(Sent(behind.BatchNow()), "ABC");
}

TEST(TritonTest, LevelsComeInOrderAndTheOldestOfTheBatchSetsTheWindow) {
  Scene scene = SceneOf({.max_batch_size = 2,
                         .max_queue_delay_microseconds = 30'000,
                         .priority_levels = 2,
                         .default_priority_level = 2});
  // B's priority is no level, so it gets the default.
  scene.Given({.waiting = {{.output = 1, .priority = 2},
                           {.output = 1, .priority = 9, .after = milliseconds(4)},
                           {.output = 1, .priority = 1, .after = milliseconds(4)}}});
  EXPECT_EQ(Sent(scene.NextBatch()), "CA");
  EXPECT_EQ(scene.now(), At(4));
  EXPECT_EQ(Sent(scene.NextBatch()), "B");
  EXPECT_EQ(scene.now(), At(34)) << "B's window begins with its arrival";
}

TEST(TritonTest, ABatchRunsToItsEndBeforeTheNextOneIsFormed) {
  Scene scene = SceneOf({.max_batch_size = 2});
  scene.Given({.running = {{.output = 2}}, .waiting = Arrivals({0})});
  EXPECT_EQ(scene.NextBatch(), Batch({Decode('A')}));
  EXPECT_EQ(scene.NextBatch(), Batch({Prefill('B', 1)}));
}

// Steps of copies return in any order, so the test returns them itself.
TEST(TritonTest, CopiesOfTheModelRunBatchesThatReturnInAnyOrder) {
  Engine engine(
      {.kv = {.block_size = 1, .blocks = 100}},
      std::make_unique<TritonPolicy>(TritonConfig{.max_batch_size = 2, .instance_count = 2}));
  for (std::uint32_t id = 0; id < 5; ++id) {
    Request request;
    request.id = RequestId{id};
    request.prompt_tokens = request.max_output_tokens = 1;
    engine.Handle(RequestArrived{request});
  }
  const auto sent = [&engine] {
    Ids ids;
    const StepPlan* plan = engine.PlanStep(kTimeZero);
    if (plan == nullptr) return ids;
    for (const WorkItem& item : plan->work) ids += Scene::Name(item.request);
    return ids;
  };
  const auto finish = [&engine](std::uint64_t step, std::initializer_list<std::uint32_t> ids) {
    std::vector<ItemOutcome> outcomes;
    for (const std::uint32_t id : ids) {
      outcomes.push_back({RequestId{id}, 1, FinishReason::kLength});
    }
    engine.Handle(StepFinished{StepId{step}, kTimeZero, outcomes, {}});
  };
  EXPECT_EQ(sent(), "AB");
  EXPECT_EQ(sent(), "CD");
  EXPECT_EQ(sent(), "") << "both are busy";
  finish(2, {2, 3});
  EXPECT_EQ(sent(), "E");
  finish(3, {4});
  finish(1, {0, 1});
  EXPECT_NO_THROW(engine.CheckDrained());
}

TEST(TritonConfigTest, RefusesSizesBeyondTheBatchAndADefaultBeyondTheLevels) {
  EXPECT_THROW((TritonConfig{.max_batch_size = 4, .preferred_batch_size = {5}}.Validate()),
               InputError);
  EXPECT_THROW((TritonConfig{.preferred_batch_size = {0}}.Validate()), InputError);
  EXPECT_THROW((TritonConfig{.priority_levels = 2}.Validate()), InputError);
  EXPECT_THROW((TritonConfig{.priority_levels = 2, .default_priority_level = 3}.Validate()),
               InputError);
  EXPECT_NO_THROW((TritonConfig{.priority_levels = 2, .default_priority_level = 2}.Validate()));
}

}  // namespace
}  // namespace twin::testing
