// The policy in the vocabulary of sched/testing: given this state, expect this batch.
#include "shortest_prompt_first.h"

#include <gtest/gtest.h>

#include <memory>

#include "sched/testing/scene.h"

namespace {

using twin::testing::Batch;
using twin::testing::Decode;
using twin::testing::Prefill;
using twin::testing::Scene;

// A budget of 8 tokens, blocks of 4, steps of 1 ms.
Scene SceneOf(int blocks) {
  const ShortestPromptFirstConfig config{.tokens_per_step = 8,
                                         .patience = std::chrono::milliseconds(3)};
  return Scene(std::make_unique<ShortestPromptFirst>(config), {.block_size = 4, .blocks = blocks});
}

TEST(ShortestPromptFirstTest, DecodesComeFirstAndTheShortestPromptNext) {
  Scene scene = SceneOf(100);
  scene.Given({.running = {{.prompt = 6}}, .waiting = {{.prompt = 20}, {.prompt = 5}}});
  EXPECT_EQ(scene.NextBatch(), Batch({Decode('A'), Prefill('C', 5), Prefill('B', 2)}));
  EXPECT_EQ(scene.NextBatch(), Batch({Decode('A'), Decode('C'), Prefill('B', 6)}));
}

TEST(ShortestPromptFirstTest, WhoHasWaitedTooLongComesBeforeShorterPrompts) {
  Scene scene = SceneOf(100);
  scene.Given({.running = {{.prompt = 6}}, .waiting = {{.prompt = 20}}});
  scene.WaitUntil(scene.now() + std::chrono::milliseconds(4));
  scene.Given({.waiting = {{.prompt = 5}}});
  EXPECT_EQ(scene.NextBatch(), Batch({Decode('A'), Prefill('B', 7)}));
}

// Both hold two full blocks; the fifth and last one goes to A's ninth token.
TEST(ShortestPromptFirstTest, TheLatestIsPreemptedAndNobodyIsAdmittedInItsPlace) {
  Scene scene = SceneOf(5);
  scene.Given({.running = {{.prompt = 4, .output = 12}, {.prompt = 4, .output = 12}}});
  for (int step = 0; step < 4; ++step) {
    EXPECT_EQ(scene.NextBatch(), Batch({Decode('A'), Decode('B')}));
  }
  EXPECT_EQ(scene.NextBatch(), Batch({Decode('A')}));
  ASSERT_EQ(scene.plan().preempted.size(), 1u);
  EXPECT_EQ(scene.plan().preempted[0].request, Scene::Id('B'));
}

TEST(ShortestPromptFirstTest, WhatNeverFitsIsRejected) {
  Scene scene = SceneOf(5);
  scene.Given({.waiting = {{.prompt = 15, .output = 6}}});
  EXPECT_EQ(scene.BatchNow(), Batch());
  ASSERT_EQ(scene.plan().rejected.size(), 1u);
}

}  // namespace
