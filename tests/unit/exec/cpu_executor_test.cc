// Plans written by hand, carried out by a small model.
#include "exec/cpu/cpu_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "exec/cpu/cpu_model.h"
#include "tests/unit/exec/model_folder.h"

namespace twin::exec {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr RequestId kFirst{0};
constexpr RequestId kSecond{1};

KvOperation Allocate(RequestId request, std::int32_t block) {
  return {KvOperation::Kind::kAllocate, request, BlockId{block}, BlockId::kNone};
}
KvOperation SwapOut(RequestId request, std::int32_t block, std::int32_t host) {
  return {KvOperation::Kind::kSwapOut, request, BlockId{block}, BlockId{host}};
}
KvOperation SwapIn(RequestId request, std::int32_t block, std::int32_t host) {
  return {KvOperation::Kind::kSwapIn, request, BlockId{block}, BlockId{host}};
}
KvOperation Release(RequestId request) {
  return {KvOperation::Kind::kRelease, request, BlockId::kNone, BlockId::kNone};
}

class CpuExecutorTest : public ::testing::Test {
 protected:
  static CpuModel MakeModel(kernels::ThreadPool& pool) {
    const ModelConfig config = ParseModelConfig(testing::kLlamaConfig, "config.json");
    const testing::ModelFolder folder("executor");
    folder.WriteWeights(testing::RandomTensors(config, "model."));
    return {config, LoadWeights(folder.path(), config, DType::kFp32, pool).weights, 64, pool};
  }

  std::vector<SampledToken> Execute(std::vector<KvOperation> kv, std::vector<WorkItem> work) {
    StepPlan plan;
    plan.kv = std::move(kv);
    plan.work = std::move(work);
    const auto sampled = executor_.Execute(plan);
    return {sampled.begin(), sampled.end()};
  }

  static WorkItem Item(RequestId request, std::int32_t start, std::int32_t tokens, bool emits) {
    return {.request = request, .start = start, .tokens = tokens, .emits = emits};
  }

  static std::vector<std::byte> BlockBytes(const kernels::KvCacheView& cache, std::int64_t block) {
    const std::byte* const data = cache.Block(block);
    return {data, data + cache.shape.BlockBytes()};
  }

  kernels::ThreadPool pool_{2};
  CpuModel model_ = MakeModel(pool_);
  CpuExecutor executor_{model_, {.block_size = 4, .blocks = 8, .host_blocks = 4}};
  const std::vector<std::int32_t> prompt_ = {5, 1, 22, 9, 17, 3};
};

TEST_F(CpuExecutorTest, EmitsWhereAskedAndContinuesWithWhatItEmitted) {
  executor_.Open(kFirst, prompt_, {});
  EXPECT_THAT(Execute({Allocate(kFirst, 3), Allocate(kFirst, 0)}, {Item(kFirst, 0, 4, false)}),
              IsEmpty());
  EXPECT_THAT(executor_.logits(), IsEmpty());
  const auto first = Execute({}, {Item(kFirst, 4, 2, true)});
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_EQ(first[0].position, 6);
  EXPECT_TRUE(first[0].fresh);
  ASSERT_THAT(executor_.logits(), SizeIs(1));
  const auto logits = executor_.logits()[0].logits;
  EXPECT_EQ(first[0].token, std::max_element(logits.begin(), logits.end()) - logits.begin());
  const auto second = Execute({}, {Item(kFirst, 6, 1, true)});
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_EQ(executor_.tokens(kFirst).size(), 8U);
  EXPECT_EQ(executor_.tokens(kFirst)[7], second[0].token);
}

TEST_F(CpuExecutorTest, AnotherPlaceInTheCacheChangesNoBit) {
  executor_.Open(kFirst, prompt_, {});
  executor_.Open(kSecond, prompt_, {});
  Execute({Allocate(kFirst, 0), Allocate(kFirst, 1)}, {Item(kFirst, 0, 6, true)});
  const auto logits = executor_.logits()[0].logits;
  const std::vector<float> alone(logits.begin(), logits.end());
  // Beside a decode of the first, in blocks of falling number.
  Execute({Allocate(kSecond, 7), Allocate(kSecond, 2)},
          {Item(kFirst, 6, 1, true), Item(kSecond, 0, 6, true)});
  const auto beside = executor_.logits()[1].logits;
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), beside.begin(), beside.end()));
}

TEST_F(CpuExecutorTest, ATokenThatIsKnownAlreadyIsNotFresh) {
  executor_.Open(kFirst, prompt_, {});
  const std::vector<KvOperation> blocks = {Allocate(kFirst, 0), Allocate(kFirst, 1)};
  const auto first = Execute(blocks, {Item(kFirst, 0, 6, true)});
  const auto again = Execute({Release(kFirst), Allocate(kFirst, 4), Allocate(kFirst, 5)},
                             {Item(kFirst, 0, 6, true)});
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_FALSE(again[0].fresh);
  EXPECT_EQ(again[0].token, first[0].token);
  EXPECT_EQ(executor_.tokens(kFirst).size(), 7U);
}

TEST_F(CpuExecutorTest, SwapsMoveBlocksOutAndBackElsewhere) {
  executor_.Open(kFirst, prompt_, {});
  executor_.Open(kSecond, std::vector<std::int32_t>{7, 8, 6, 2, 28}, {});
  Execute({Allocate(kFirst, 0), Allocate(kFirst, 1)}, {Item(kFirst, 0, 6, true)});
  const std::vector<std::byte> block0 = BlockBytes(executor_.device_cache(), 0);
  const std::vector<std::byte> block1 = BlockBytes(executor_.device_cache(), 1);
  // The second takes the blocks in the very plan that swaps the first out.
  Execute(
      {SwapOut(kFirst, 0, 2), SwapOut(kFirst, 1, 0), Allocate(kSecond, 0), Allocate(kSecond, 1)},
      {Item(kSecond, 0, 5, false)});
  EXPECT_EQ(BlockBytes(executor_.host_cache().view(), 2), block0);
  EXPECT_EQ(BlockBytes(executor_.host_cache().view(), 0), block1);
  EXPECT_NE(BlockBytes(executor_.device_cache(), 1), block1);
  // Out and in within one plan: the second's blocks leave, the first's come back into them.
  Execute(
      {SwapOut(kSecond, 0, 1), SwapOut(kSecond, 1, 3), SwapIn(kFirst, 1, 2), SwapIn(kFirst, 0, 0)},
      {Item(kFirst, 6, 1, true)});
  EXPECT_EQ(BlockBytes(executor_.device_cache(), 1), block0);
  EXPECT_EQ(executor_.tokens(kFirst).size(), 8U);
}

TEST_F(CpuExecutorTest, GivesLogitsOfAllRowsWhereConfigured) {
  CpuExecutor all(model_, {.block_size = 4, .blocks = 8, .logits_of_all_rows = true});
  all.Open(kFirst, prompt_, {});
  StepPlan plan;
  plan.kv = {Allocate(kFirst, 0), Allocate(kFirst, 1)};
  plan.work = {Item(kFirst, 0, 6, true)};
  EXPECT_THAT(all.Execute(plan), SizeIs(1));
  std::vector<std::int32_t> positions;
  for (const LogitRow& row : all.logits()) positions.push_back(row.position);
  EXPECT_THAT(positions, ElementsAre(0, 1, 2, 3, 4, 5));
}

// A padded batch computes rows for nobody: they change no token, no logit and no block.
TEST_F(CpuExecutorTest, ComputesPaddingForNobody) {
  executor_.Open(kFirst, prompt_, {});
  StepPlan plan;
  plan.kv = {Allocate(kFirst, 0), Allocate(kFirst, 1)};
  plan.work = {Item(kFirst, 0, 6, true)};
  const std::vector<SampledToken> ragged = Execute(plan.kv, plan.work);
  const std::vector<float> logits(executor_.logits()[0].logits.begin(),
                                  executor_.logits()[0].logits.end());
  const auto blocks = BlockBytes(executor_.device_cache(), 0);

  CpuExecutor padded(model_, {.block_size = 4, .blocks = 8});
  padded.Open(kFirst, prompt_, {});
  plan.work[0].padded_tokens = 15;
  plan.totals.padding_tokens = 9 + 2;
  plan.padding_rows = {kSecond, kSecond};
  const auto sampled = padded.Execute(plan);
  ASSERT_THAT(sampled, SizeIs(1));
  EXPECT_EQ(sampled[0].token, ragged[0].token);
  ASSERT_THAT(padded.logits(), SizeIs(1));
  EXPECT_TRUE(std::ranges::equal(padded.logits()[0].logits, logits));
  EXPECT_EQ(BlockBytes(padded.device_cache(), 0), blocks);
  EXPECT_EQ(BlockBytes(padded.device_cache(), 5), BlockBytes(executor_.device_cache(), 5));
}

TEST_F(CpuExecutorTest, PartsOfAStepAddUpToItsTime) {
  executor_.Open(kFirst, prompt_, {});
  Execute({Allocate(kFirst, 0), Allocate(kFirst, 1)}, {Item(kFirst, 0, 6, true)});
  const LapTimer& laps = executor_.laps();
  const StepParts parts = laps.parts();
  EXPECT_EQ(parts.device(), std::chrono::duration_cast<Duration>(laps.end() - laps.begin()));
  for (const StepPart part : {StepPart::kBuild, StepPart::kGemm, StepPart::kAttention,
                              StepPart::kOther, StepPart::kSampling}) {
    EXPECT_GT(parts[part], Duration{0}) << kStepPartNames[static_cast<std::size_t>(part)];
  }
  EXPECT_EQ(parts[StepPart::kSchedule] + parts[StepPart::kDelivery], Duration{0});
  EXPECT_EQ(parts[StepPart::kCommunication], Duration{0});
  // A step without work only follows the plan's block operations.
  Execute({Release(kFirst)}, {});
  EXPECT_EQ(laps.parts()[StepPart::kBuild], laps.parts().device());
  EXPECT_EQ(laps.parts().device(), std::chrono::duration_cast<Duration>(laps.end() - laps.begin()));
}

TEST_F(CpuExecutorTest, BlocksOfAClosedRequestMayStillReturn) {
  executor_.Open(kFirst, prompt_, {});
  Execute({Allocate(kFirst, 0), Allocate(kFirst, 1)}, {Item(kFirst, 0, 6, true)});
  executor_.Close(kFirst);
  EXPECT_THAT(Execute({Release(kFirst)}, {}), IsEmpty());
}

TEST(CpuExecutorDeathTest, StopsAtPlansThatDoNotFollow) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  kernels::ThreadPool pool(1);
  const ModelConfig config = ParseModelConfig(testing::kLlamaConfig, "config.json");
  CpuModel model(config, MakeDummyWeights(config, DType::kFp32, 1, pool), 64, pool);
  CpuExecutor executor(model, {.block_size = 4, .blocks = 8});
  executor.Open(kFirst, std::vector<std::int32_t>{1, 2}, {});
  StepPlan no_blocks;
  no_blocks.work = {{.request = kFirst, .tokens = 2, .emits = true}};
  EXPECT_DEATH(executor.Execute(no_blocks), "check failed");
  StepPlan unknown_tokens;
  unknown_tokens.kv = {Allocate(kFirst, 0)};
  unknown_tokens.work = {{.request = kFirst, .tokens = 3, .emits = true}};
  EXPECT_DEATH(executor.Execute(unknown_tokens), "check failed");
}

}  // namespace
}  // namespace twin::exec
