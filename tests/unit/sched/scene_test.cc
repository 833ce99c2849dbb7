// The vocabulary of sched/testing, with vLLM V1 as its subject. Expected values: by hand.
#include "sched/testing/scene.h"

#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <stdexcept>

#include "sched/policy/vllm_v1.h"

namespace twin::testing {
namespace {

Scene SceneOf(std::int32_t budget, std::int32_t blocks) {
  VllmV1Config config;
  config.max_num_batched_tokens = budget;
  config.max_num_seqs = 4;
  config.max_model_len = 64;
  return Scene(std::make_unique<VllmV1Policy>(config, blocks), {.block_size = 4, .blocks = blocks});
}

TEST(SceneTest, RunningRequestsHaveEmittedATokenAndWaitingOnesAreNew) {
  Scene scene = SceneOf(8, 16);
  scene.Given({.running = {{.prompt = 6}}, .waiting = {{.prompt = 10}}});
  EXPECT_EQ(scene.NextBatch(), Batch({Decode('A'), Prefill('B', 7)}));
  EXPECT_EQ(scene.NextBatch(), Batch({Decode('A'), Prefill('B', 3)}));
  EXPECT_EQ(scene.NextBatch(), Batch({Decode('A'), Decode('B')}));
}

// Blocks of 4: A and B hold 2 each, and the fifth is taken for A's ninth token.
TEST(SceneTest, ThePlanNamesWhoWasPreempted) {
  Scene scene = SceneOf(16, 5);
  scene.Given({.running = {{.prompt = 8}, {.prompt = 8}}});
  EXPECT_EQ(scene.NextBatch(), Batch({Decode('A')}));
  ASSERT_EQ(scene.plan().preempted.size(), 1u);
  EXPECT_EQ(scene.plan().preempted[0].request, Scene::Id('B'));
}

TEST(SceneTest, RequestsEndAtTheirOutputOrEarlierOrLeave) {
  Scene scene = SceneOf(16, 16);
  scene.Given({.running = {{.output = 2}, {}, {}}, .waiting = {}});
  scene.StopEarly('B');
  EXPECT_EQ(scene.NextBatch(), Batch({Decode('A'), Decode('B'), Decode('C')}));
  EXPECT_EQ(scene.NextBatch(), Batch({Decode('C')}));
  scene.Cancel('C');
  EXPECT_EQ(scene.NextBatch(), Batch());
  EXPECT_NO_THROW(scene.engine().CheckDrained());
}

// Steps of 1 ms. B comes in the middle of the second one.
TEST(SceneTest, ArrivalsTakeTheirTime) {
  Scene scene = SceneOf(16, 16);
  scene.Given({.waiting = {{.output = 3}, {.after = std::chrono::microseconds(1500)}}});
  EXPECT_EQ(scene.NextBatch(), Batch({Prefill('A', 1)}));
  EXPECT_EQ(scene.NextBatch(), Batch({Decode('A')}));
  EXPECT_EQ(scene.NextBatch(), Batch({Decode('A'), Prefill('B', 1)}));
  EXPECT_EQ(scene.now(), kTimeZero + std::chrono::milliseconds(2));
}

TEST(SceneTest, RefusesAStateThatThePolicyNeverReaches) {
  Scene scene = SceneOf(16, 16);
  EXPECT_THROW(scene.Given({.running = {{.output = 1}}}), std::logic_error) << "it ends at once";
}

TEST(BatchTest, ReadsAsInTheNotationOfTheWorkedExamples) {
  std::ostringstream text;
  text << Batch({Decode('A'), Prefill('B', 7)}) << " / " << Batch();
  EXPECT_EQ(text.str(), "A:D1 B:P7 / nothing");
}

}  // namespace
}  // namespace twin::testing
