#include "exec/profile/synthetic_steps.h"

#include <gtest/gtest.h>

#include "exec/cpu/cpu_model.h"
#include "exec/profile/model_work.h"
#include "tests/unit/exec/model_folder.h"

namespace twin::exec {
namespace {

TEST(SyntheticStepsTest, TotalsCountAsAnEngineDoes) {
  // A chunk of 3 at 4: keys 5 + 6 + 7. A last chunk of 2 at 0: keys 1 + 2. Decodes read 10 and 1.
  const std::vector<StepItem> items = {ChunkItem(4, 3, false), ChunkItem(0, 2, true), DecodeItem(9),
                                       DecodeItem(0)};
  const StepTotals totals = TotalsOf(items);
  EXPECT_EQ(totals, (StepTotals{.prefill_tokens = 5,
                                .prefill_items = 2,
                                .prefill_context_tokens = 9,
                                .prefill_attention_pairs = 21,
                                .prefill_context_max = 7,
                                .decode_items = 2,
                                .decode_context_tokens = 11,
                                .decode_context_max = 10,
                                .emitting_items = 3}));
}

class SyntheticStepsRunTest : public ::testing::Test {
 protected:
  const ModelConfig config_ = ParseModelConfig(testing::kLlamaConfig, "config.json");
  kernels::ThreadPool pool_{2};
  CpuModel model_{config_, MakeDummyWeights(config_, DType::kFp32, 1, pool_), 64, pool_};
};

TEST_F(SyntheticStepsRunTest, ComputesAnyMixAndSaysWhereTheTimeWent) {
  SyntheticSteps steps(model_,
                       {.block_size = 4, .tokens = 100, .items = 4, .returns_logits = true});
  const std::vector<StepItem> items = {DecodeItem(17), ChunkItem(8, 20, false),
                                       ChunkItem(0, 5, true)};
  for (int i = 0; i < 20; ++i) {
    const StepParts parts = steps.Run(items);
    EXPECT_GT(parts[StepPart::kGemm].count(), 0);
    EXPECT_GT(parts[StepPart::kAttention].count(), 0);
    EXPECT_GT(parts[StepPart::kSampling].count(), 0);
    EXPECT_EQ(parts[StepPart::kSchedule].count(), 0);
    // Of the two that emit; the next tokens stand at 18 and 5.
    ASSERT_EQ(steps.logits().size(), 2U);
    EXPECT_EQ(steps.logits()[0].position, 17);
    EXPECT_EQ(steps.logits()[1].position, 4);
  }
  EXPECT_EQ(steps.BlocksOf(items), 5 + 7 + 2);
}

TEST_F(SyntheticStepsRunTest, DecodesMoveOnByOneTokenEach) {
  SyntheticSteps steps(model_, {.block_size = 4, .tokens = 60, .items = 3, .returns_logits = true});
  const StepParts parts = steps.RunDecodes(3, 14, 6);
  EXPECT_GT(parts.device().count(), 0);
  ASSERT_EQ(steps.logits().size(), 3U);
  EXPECT_EQ(steps.logits()[0].position, 19);
}

TEST_F(SyntheticStepsRunTest, TheCacheIsFilledWithNumbersThatDiffer) {
  SyntheticSteps steps(model_, {.kv_dtype = DType::kBf16, .block_size = 4, .tokens = 8});
  const auto& cache = steps.cache();
  const auto* values = reinterpret_cast<const std::uint16_t*>(cache.Block(0));
  EXPECT_NE(values[0], values[1]);
  EXPECT_NE(values[0], 0);
}

TEST_F(SyntheticStepsRunTest, RefusesWhatTheCacheCannotHold) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  SyntheticSteps steps(model_, {.block_size = 4, .tokens = 8, .items = 1});
  const std::vector<StepItem> items = {DecodeItem(40)};
  EXPECT_DEATH(steps.Run(items), "check failed");
}

TEST(ModelWorkTest, CountsTheWeightsOfTheConfigByHand) {
  // hidden 16, ff 24, 2 layers, 4 query and 2 KV heads of 4, vocabulary 29, untied, fp32.
  // A layer: qkv 16 x 32, output 16 x 16, gate and up 16 x 48, down 24 x 16 = 1920 weights. All
  // rows but those of qkv (32), output (16 -> 32), up (48 -> 64), down (16 -> 32) and head (29 ->
  // 32) are whole panels.
  const ModelConfig config = ParseModelConfig(testing::kLlamaConfig, "config.json");
  kernels::ThreadPool pool(1);
  const ModelWeights weights = MakeDummyWeights(config, DType::kFp32, 1, pool);
  const ModelWork work = WorkOf(config.shape, weights, DType::kBf16);
  EXPECT_EQ(work.layer_weights, 2 * 1920);
  EXPECT_EQ(work.head_weights, 16 * 29);
  EXPECT_EQ(work.layer_bytes, 2 * 4 * (32 * 16 + 32 * 16 + 64 * 16 + 32 * 24));
  EXPECT_EQ(work.head_bytes, 4 * 32 * 16);
  EXPECT_EQ(work.flops_per_pair, 4 * 2 * 4 * 4);
  EXPECT_EQ(work.kv_bytes_per_token, 2 * 2 * 2 * 4 * 2);
  const StepTotals totals{.decode_items = 3, .decode_context_tokens = 30, .emitting_items = 3};
  EXPECT_DOUBLE_EQ(work.Flops(totals), 2.0 * 3840 * 3 + 2.0 * 464 * 3 + 128.0 * 30);
  EXPECT_DOUBLE_EQ(work.Bytes(totals), 2 * 4 * 2816 + 2048 + 64 * 30);
}

TEST(ModelWorkTest, OfAMixtureCountsTheExpertsThatTokensChoose) {
  // As above, but a layer has, in place of gate, up and down: a router 16 x 5, the gate of the
  // shared expert 16 x 1, that expert 16 x 40 and 20 x 16, and experts of 16 x 24 and 12 x 16.
  const ModelConfig config = ParseModelConfig(testing::kMixtureConfig, "config.json");
  kernels::ThreadPool pool(1);
  const ModelWeights weights = MakeDummyWeights(config, DType::kFp32, 1, pool);
  const ModelWork work = WorkOf(config.shape, weights, DType::kBf16);
  EXPECT_EQ(work.layer_weights, 2 * (16 * 32 + 16 * 16 + 16 * 5 + 16 + 16 * 40 + 20 * 16));
  EXPECT_EQ(work.expert_weights, 2 * (16 * 24 + 12 * 16));
  EXPECT_EQ(work.expert_bytes, 2 * 4 * (32 * 16 + 32 * 12));
  // Of 5 experts, two tokens with two each choose 5 (1 - (3 / 5)^2) = 3.2.
  const StepTotals one{.decode_items = 1, .decode_context_tokens = 10};
  const StepTotals two{.decode_items = 2, .decode_context_tokens = 10};
  EXPECT_NEAR(work.Bytes(two) - work.Bytes(one), 1.2 * 7168, 1e-6);
  EXPECT_DOUBLE_EQ(work.Flops(two) - work.Flops(one), 2.0 * (3648 + 2 * 1152));
}

}  // namespace
}  // namespace twin::exec
