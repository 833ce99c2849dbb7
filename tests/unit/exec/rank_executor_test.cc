// The stages of a pipeline: what they wait for, and where their time went.
#include "exec/rank_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <initializer_list>
#include <thread>
#include <utility>
#include <vector>

#include "exec/comm/thread_ranks.h"
#include "exec/cpu/cpu_model.h"
#include "exec/model/weights.h"
#include "exec/rank_groups.h"

namespace twin::exec {
namespace {

using ::testing::Each;
using ::testing::Ge;

StepParts PartsOf(std::initializer_list<std::pair<StepPart, std::int64_t>> times) {
  StepParts parts;
  for (const auto& [part, time] : times) parts[part] = Duration{time};
  return parts;
}

// The first stage computes from 0 to 100 and sends; the last one built from 20 to 50 and waited
// from 50 to 110; it computes until 180, and the result is there at 185. On the way: 10 + 5, and
// the 2 that the first stage sent.
TEST(JoinStagesTest, WhatTheLastStageDidBesideTheFirstIsNotCountedTwice) {
  const StepParts first = PartsOf({{StepPart::kBuild, 8},
                                   {StepPart::kGemm, 70},
                                   {StepPart::kOther, 20},
                                   {StepPart::kCommunication, 2}});
  const StepParts last = PartsOf({{StepPart::kBuild, 30},
                                  {StepPart::kCommunication, 60},
                                  {StepPart::kGemm, 50},
                                  {StepPart::kOther, 15},
                                  {StepPart::kSampling, 5}});
  EXPECT_EQ(JoinStages(first, last, Duration{185}), PartsOf({{StepPart::kBuild, 8},
                                                             {StepPart::kGemm, 120},
                                                             {StepPart::kOther, 35},
                                                             {StepPart::kSampling, 5},
                                                             {StepPart::kCommunication, 17}}));
}

// The first stage sends at 50 and is not scheduled until 90, which its laps take for work; the last
// one has computed from 51 to 81, and the result is there at 95: 24 of the 40 are counted already.
TEST(JoinStagesTest, NoPartIsNegativeWhereTheFirstStageWasHeldUp) {
  const StepParts first =
      PartsOf({{StepPart::kGemm, 49}, {StepPart::kOther, 40}, {StepPart::kSampling, 1}});
  const StepParts last = PartsOf({{StepPart::kGemm, 30}, {StepPart::kBuild, 9}});
  EXPECT_EQ(JoinStages(first, last, Duration{95}),
            PartsOf({{StepPart::kGemm, 79}, {StepPart::kOther, 16}}));
}

ModelConfig TinyModel() {
  return ParseModelConfig(R"({"model_type": "llama", "hidden_size": 32,
      "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": 2, "vocab_size": 29, "max_position_embeddings": 128,
      "rms_norm_eps": 1e-5, "rope_theta": 500.0, "tie_word_embeddings": false})",
                          "config.json");
}

// body(executor, rank) on both stages of a pipeline.
template <class Body>
void RunTwoStages(Duration limit, const Body& body) {
  RunThreadRanks(2, limit, [&](Communicator& world) {
    const RankGroups groups(world, {.pipeline = 2});
    kernels::ThreadPool pool(1);
    const ModelConfig config = TinyModel();
    CpuModel model(config, MakeDummyWeights(config, DType::kFp32, 1, pool, groups.place()), 100,
                   pool, groups.links());
    RankExecutor executor(model, {.executor = {.block_size = 8, .blocks = 9}});
    executor.Open(RequestId{0}, std::vector<std::int32_t>{1, 2, 3}, {});
    body(executor, world.rank());
  });
}

StepPlan FirstStep() {
  StepPlan plan;
  plan.id = StepId{1};
  plan.kv = {{.kind = KvOperation::Kind::kAllocate, .request = RequestId{0}, .block = BlockId{0}}};
  plan.work = {{.request = RequestId{0}, .tokens = 3, .emits = true}};
  return plan;
}

// A stage that computes for longer than ranks wait for each other is no failure.
TEST(RankExecutorTest, AStageWaitsForActivationsBeyondTheLimit) {
  constexpr Duration kLimit = std::chrono::seconds(1);
  RunTwoStages(kLimit, [&](RankExecutor& executor, std::int32_t rank) {
    if (rank == 0) std::this_thread::sleep_for(2 * kLimit);
    executor.Execute(FirstStep());
    if (rank != 0) return;
    EXPECT_EQ(executor.Collect().sampled.size(), 1U);
  });
}

TEST(RankExecutorTest, PartsOfAStepSumToItsTimeAndNoneIsNegative) {
  RunTwoStages(kRankTimeout, [&](RankExecutor& executor, std::int32_t rank) {
    executor.Execute(FirstStep());
    if (rank != 0) return;
    const StepResult& result = executor.Collect();
    EXPECT_EQ(result.parts.device(), result.finished - result.started);
    EXPECT_THAT(result.parts.times, Each(Ge(Duration{0})));
  });
}

}  // namespace
}  // namespace twin::exec
