// Expected values: a small model of the rules in sched/policy/fastserve.h for the first test (grade
// MODEL of tests/golden/README.md); by hand for the others.
#include "sched/policy/fastserve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "sched/engine.h"
#include "sched/testing/scene.h"
#include "tests/support/decided_trace.h"

namespace twin::testing {
namespace {

// Of the example's unit of time, in nanoseconds.
constexpr std::int64_t kUnit = 4;

SceneRequest At(std::int64_t unit, std::int32_t prompt, std::int32_t output) {
  return {.prompt = prompt, .output = output, .after = Duration{unit * kUnit}};
}

// A quarter of a unit for each token of its longest prompt, and at least a unit.
Duration StepTime(const StepPlan& plan) {
  std::int64_t took = kUnit;
  for (const WorkItem& item : plan.work) took = std::max<std::int64_t>(took, item.tokens);
  return Duration{took};
}

// "4-5: C:P4 A:D1" for a step that lasts from 4 to 5.
std::string Served(const FastServeConfig& config, const std::vector<SceneRequest>& requests) {
  Scene scene(std::make_unique<FastServePolicy>(config),
              {.block_size = 4, .blocks = 100, .host_blocks = 100, .step_time = StepTime});
  scene.Given({.waiting = requests});
  std::ostringstream text;
  for (Batch batch = scene.NextBatch(); !batch.empty(); batch = scene.NextBatch()) {
    text << Nanoseconds(scene.now()) / kUnit << "-" << Nanoseconds(scene.step_ends()) / kUnit
         << ": " << batch << "\n";
  }
  scene.engine().CheckDrained();
  return text.str();
}

// Two requests a step; quanta of 1, 2, 4, ... units; a prompt is expected to take what it takes.
FastServeConfig SmallConfig() {
  FastServeConfig config;
  config.max_batch_size = 2;
  config.base_quantum = Duration{kUnit};
  config.prefill_time = Duration{0};
  config.prefill_token_time = Duration{kUnit / 4};
  config.proactive_offloading = false;
  return config;
}

// A joins the first queue, B the third, whose quantum is 4. A is charged the time of B's prompt and
// goes down at once; B has used its quantum up, but not exceeded it, and stays.
TEST(FastServePolicyTest, QueuesFollowTheWorkedExample) {
  EXPECT_EQ(Served(SmallConfig(), {At(0, 4, 5), At(0, 16, 2), At(3, 4, 2)}),
            "0-4: A:P4 B:P16\n"
            "4-5: C:P4 A:D1\n"
            "5-6: C:D1 A:D1\n"
            "6-7: A:D1 B:D1\n"
            "7-8: A:D1\n");
}

// All join the first queue. A and B go down to the second, where B, put back last, is the first.
TEST(FastServePolicyTest, WithoutSkipJoinALongPromptGoesFirst) {
  FastServeConfig config = SmallConfig();
  config.use_skip_join = false;
  EXPECT_EQ(Served(config, {At(0, 4, 5), At(0, 16, 2), At(3, 4, 2)}),
            "0-4: A:P4 B:P16\n"
            "4-5: C:P4 B:D1\n"
            "5-6: C:D1 A:D1\n"
            "6-7: A:D1\n"
            "7-8: A:D1\n"
            "8-9: A:D1\n");
}

// Nobody exceeds a quantum of 1,000 units: the batch stays the same, and each step, which puts its
// requests back one by one, turns it round. Positions 4 to 9 are decoded; each takes a block for 4
// and for 8.
TEST(FastServePolicyTest, ABatchThatRepeatsTurnsRoundInEveryStep) {
  FastServeConfig config = SmallConfig();
  config.base_quantum = Duration{1000 * kUnit};
  EXPECT_EQ(Served(config, {At(0, 4, 7), At(0, 4, 7)}),
            "0-1: A:P4 B:P4\n"
            "1-2: B:D1 A:D1\n"
            "2-3: A:D1 B:D1\n"
            "3-4: B:D1 A:D1\n"
            "4-5: A:D1 B:D1\n"
            "5-6: B:D1 A:D1\n"
            "6-7: A:D1 B:D1\n");
  EXPECT_EQ(Decided(config, {.blocks = 20}, {{1, 4, 7}, {1, 4, 7}}),
            "it1: A:P4 B:P4 | free=18\n"
            "it2: B:D1 A:D1 | free=16\n"
            "it3: A:D1 B:D1 | free=16\n"
            "it4: B:D1 A:D1 | free=16\n"
            "it5: A:D1 B:D1 | free=16\n"
            "it6: B:D1 A:D1 | free=14\n"
            "it7: A:D1 B:D1 | free=14 | fin=[A,B] | freeA=20\n");
}

// One request a step, which takes a nanosecond.
FastServeConfig OneAtATime() {
  FastServeConfig config = SmallConfig();
  config.max_batch_size = 1;
  config.base_quantum = Duration{1};
  config.prefill_token_time = Duration{0};
  return config;
}

// A has exceeded its quantum behind it2. B needs a block, and A holds all 3.
TEST(FastServePolicyTest, SwapsOutARequestOfALowerQueue) {
  EXPECT_EQ(Decided(OneAtATime(), {.blocks = 3, .host_blocks = 3}, {{1, 8, 4}, {3, 4, 2}}),
            "it1: A:P8 | free=1\n"
            "it2: A:D1 | free=0\n"
            "it3: B:P4 | out=[A] | free=2\n"
            "it4: B:D1 | free=1 | fin=[B] | freeA=3\n"
            "it5: A:D1 | in=[A] | free=0\n"
            "it6: A:D1 | free=0 | fin=[A] | freeA=3\n");
}

TEST(FastServePolicyTest, WhereTheHostIsFullARequestIsComputedAgain) {
  EXPECT_EQ(Decided(OneAtATime(), {.blocks = 3, .host_blocks = 2}, {{1, 8, 4}, {3, 4, 2}}),
            "it1: A:P8 | free=1\n"
            "it2: A:D1 | free=0\n"
            "it3: B:P4 | pre=[A] | free=2\n"
            "it4: B:D1 | free=1 | fin=[B] | freeA=3\n"
            "it5: A:P10 | free=0\n"
            "it6: A:D1 | free=0 | fin=[A] | freeA=3\n");
}

// A and B both go down after 2 tokens, and B stands before A. A last computed until 3.
TEST(FastServePolicyTest, ARequestThatStarvesIsServedNext) {
  FastServeConfig config = OneAtATime();
  config.starvation_period = 1;
  config.starvation_threshold = Duration{3};
  EXPECT_EQ(Decided(config, {.blocks = 20}, {{1, 4, 4}, {3, 4, 4}}),
            "it1: A:P4 | free=19\n"
            "it2: A:D1 | free=18\n"
            "it3: B:P4 | free=17\n"
            "it4: B:D1 | free=16\n"
            "it5: B:D1 | free=16\n"
            "it6: A:D1 | free=16\n"
            "it7: A:D1 | free=16 | fin=[A] | freeA=18\n"
            "it8: B:D1 | free=18 | fin=[B] | freeA=20\n");
}

// 2 blocks are to stay free. In it5 C takes one of them, and A goes, the last one of the second
// queue. In it6 there is room for A beside them, and it comes back before its turn in it9.
TEST(FastServePolicyTest, SwapsAheadOfNeed) {
  FastServeConfig config = OneAtATime();
  config.proactive_offloading = true;
  config.num_min_free_blocks_threshold = 2;
  EXPECT_EQ(Decided(config, {.blocks = 8, .host_blocks = 3}, {{1, 8, 5}, {3, 8, 5}, {5, 2, 1}}),
            "it1: A:P8 | free=6\n"
            "it2: A:D1 | free=5\n"
            "it3: B:P8 | free=3\n"
            "it4: B:D1 | free=2\n"
            "it5: C:P2 | out=[A] | free=4 | fin=[C] | freeA=5\n"
            "it6: B:D1 | in=[A] | free=2\n"
            "it7: B:D1 | free=2\n"
            "it8: B:D1 | free=2 | fin=[B] | freeA=5\n"
            "it9: A:D1 | free=5\n"
            "it10: A:D1 | free=5\n"
            "it11: A:D1 | free=5 | fin=[A] | freeA=8\n");
}

// From it3 on A fills the host, so C and D, who are new, wait for B and for A, although their queue
// comes first. With A back in it7 the host is free, and they are served in the order of arrival.
TEST(FastServePolicyTest, WhereTheHostIsFullNewRequestsWaitAndKeepTheirOrder) {
  EXPECT_EQ(Decided(OneAtATime(), {.blocks = 4, .host_blocks = 3},
                    {{1, 8, 4}, {3, 8, 4}, {5, 4, 1}, {5, 4, 1}}),
            "it1: A:P8 | free=2\n"
            "it2: A:D1 | free=1\n"
            "it3: B:P8 | out=[A] | free=2\n"
            "it4: B:D1 | free=1\n"
            "it5: B:D1 | free=1\n"
            "it6: B:D1 | free=1 | fin=[B] | freeA=4\n"
            "it7: A:D1 | in=[A] | free=1\n"
            "it8: C:P4 | free=0 | fin=[C] | freeA=1\n"
            "it9: D:P4 | free=0 | fin=[D] | freeA=1\n"
            "it10: A:D1 | free=1 | fin=[A] | freeA=4\n");
}

// All wait for the first time, and the host is full: a step used to look at each of them. Now a
// request is taken out of its queue once, and again where its batch is formed.
TEST(FastServePolicyTest, StepsDoNotLookAtAllWhoWaitWhileTheHostIsFull) {
  constexpr std::uint32_t kRequests = 5'000;
  constexpr std::int64_t kSteps = 200;
  FastServeConfig config = SmallConfig();
  config.base_quantum = Duration{1};
  auto owned = std::make_unique<FastServePolicy>(config);
  const FastServePolicy& policy = *owned;
  Engine engine({.kv = {.block_size = 4, .blocks = 8, .host_blocks = 3}}, std::move(owned));
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    engine.Handle(RequestArrived{
        {.id = RequestId{i}, .arrival = kTimeZero, .prompt_tokens = 8, .max_output_tokens = 20}});
  }
  TimePoint now = kTimeZero;
  for (std::int64_t i = 0; i < kSteps; ++i) {
    const StepPlan* const plan = engine.PlanStep(now);
    ASSERT_NE(plan, nullptr);
    const StepId id = plan->id;
    now += Duration{4};
    engine.Handle(StepFinished{id, now, {}, {}});
  }
  EXPECT_GE(policy.requests_popped(), kRequests);
  EXPECT_LE(policy.requests_popped(), kRequests + 2 * kSteps * config.max_batch_size);
}

TEST(FastServePolicyTest, RejectsWhatNeverFits) {
  EXPECT_EQ(Decided(OneAtATime(), {.blocks = 3}, {{1, 8, 5}, {1, 4, 1}}),
            "it1: B:P4 | rej=[A] | free=2 | fin=[B] | freeA=3\n");
}

}  // namespace
}  // namespace twin::testing
