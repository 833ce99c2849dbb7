#include "kernels/cuda/attention_split.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace twin::kernels::cuda {
namespace {

// Three decodes and two prefills of 10 and 20 queries, on pages of 16 tokens.
class AttentionSplitTest : public testing::Test {
 protected:
  AttentionSplitTest() {
    work_.sequences = 5;
    work_.decodes = 3;
    work_.rows = 33;
    work_.host = {.first_query = first_query_.data(),
                  .kv_lengths = kv_lengths_.data(),
                  .page_begin = page_begin_.data(),
                  .page_indices = page_indices_.data(),
                  .last_page_tokens = last_page_tokens_.data()};
    work_.device = work_.host;
  }

  std::vector<std::int32_t> first_query_ = {0, 1, 2, 3, 13, 33};
  std::vector<std::int32_t> kv_lengths_ = {5, 16, 17, 10, 40};
  std::vector<std::int32_t> page_begin_ = {0, 1, 2, 4, 5, 8};
  std::vector<std::int32_t> page_indices_ = {7, 6, 5, 4, 3, 2, 1, 0};
  std::vector<std::int32_t> last_page_tokens_ = {5, 16, 1, 10, 8};
  AttentionWork work_;
};

// 2^24 pages once stood for all of them: 2^31 tokens in blocks of 128, a negative number.
TEST(FixedPieceTest, OfAllKeysHasItsTokensIn32Bits) {
  AttentionPart decodes;
  decodes.sequences = 1000;
  decodes.graph = true;
  for (const std::int64_t block_size : {1, 5, 16, 64, 128, 256, 1024}) {
    const AttentionShape shape{
        .heads = 32, .kv_heads = 8, .head_dim = 128, .block_size = block_size, .windows = {0}};
    const std::int64_t tokens = block_size * FixedPiece(decodes, shape, 132);
    EXPECT_LE(tokens, std::numeric_limits<std::int32_t>::max()) << block_size;
    EXPECT_GT(tokens, 100'000'000) << block_size;  // more than any sequence has
  }
}

// 132 multiprocessors have room for 264 blocks: for 33 sequences of eight key heads.
TEST(FixedPieceTest, IsOfAllKeysFromThreeQuartersOfTheDeviceOn) {
  const AttentionShape shape{
      .heads = 32, .kv_heads = 8, .head_dim = 128, .block_size = 16, .windows = {0}};
  const auto piece = [&](std::int64_t sequences, bool graph,
                         std::optional<std::int32_t> waves = {}) {
    AttentionPart decodes;
    decodes.sequences = sequences;
    decodes.graph = graph;
    decodes.waves = waves;
    return FixedPiece(decodes, shape, 132);
  };
  EXPECT_EQ(piece(24, true), -1);
  EXPECT_GT(piece(25, true), 0);
  EXPECT_EQ(piece(25, false), -1);
  // What was measured decides first.
  EXPECT_EQ(piece(25, true, /*waves=*/1), -1);
  EXPECT_GT(piece(24, true, /*waves=*/0), 0);
}

constexpr AttentionKernel kGeneric = AttentionKernel::kGeneric;
constexpr AttentionKernel kFa2 = AttentionKernel::kFa2;
constexpr AttentionKernel kFa3 = AttentionKernel::kFa3;

TEST_F(AttentionSplitTest, CutsBehindTheDecodesAndKeepsCountingFromTheStepsBeginning) {
  const AttentionSplit split = SplitAttention(work_, {.decode = kFa2, .prefill = kFa2});
  EXPECT_EQ(split.decodes.sequences, 3);
  EXPECT_EQ(split.decodes.first_row, 0);
  EXPECT_EQ(split.decodes.rows, 3);
  EXPECT_EQ(split.decodes.host.first_query, first_query_.data());
  EXPECT_EQ(split.prefills.sequences, 2);
  EXPECT_EQ(split.prefills.first_row, 3);
  EXPECT_EQ(split.prefills.rows, 30);
  EXPECT_EQ(split.prefills.host.first_query[0], 3);
  EXPECT_EQ(split.prefills.host.kv_lengths[1], 40);
  EXPECT_EQ(split.prefills.host.page_begin[0], 4);
  EXPECT_EQ(split.prefills.device.last_page_tokens[0], 10);
  EXPECT_EQ(split.prefills.host.page_indices, page_indices_.data());
}

TEST_F(AttentionSplitTest, TakesFa3FromTheMeanQueriesItPaysFor) {
  // Means 15 queries.
  const auto kernel = [&](std::int64_t queries_min) {
    return SplitAttention(work_, {.decode = kFa2, .prefill = kFa3, .fa3_queries_min = queries_min})
        .prefill_kernel;
  };
  EXPECT_EQ(kernel(15), kFa3);
  EXPECT_EQ(kernel(16), kFa2);
}

// The step has three decodes.
TEST_F(AttentionSplitTest, DecodesAreComputedAsMeasuredForTheirNumber) {
  constexpr AttentionKernel kCudaCore = AttentionKernel::kCudaCore;
  const auto split = [&](std::vector<MeasuredDecodes> measured) {
    return SplitAttention(work_,
                          {.decode = kFa2, .prefill = kFa2, .measured = std::move(measured)});
  };
  EXPECT_EQ(split({{1, {kFa2, 1}}, {2, {kCudaCore, 1}}, {4, {kFa2, 1}}}).decode_kernel, kCudaCore);
  EXPECT_EQ(split({{1, {kCudaCore, 1}}, {3, {kFa2, 0}}}).decodes.waves, 0);
  EXPECT_EQ(split({{1, {kFa2, 4}}, {4, {kFa2, 0}}}).decodes.waves, 4);
  // None for so few.
  EXPECT_EQ(split({{4, {kCudaCore, 1}}}).decode_kernel, kFa2);
  EXPECT_EQ(split({{4, {kCudaCore, 1}}}).decodes.waves, std::nullopt);
}

TEST_F(AttentionSplitTest, FewPrefillsNeedMoreQueriesForFa3) {
  // Two prefills of 15 queries in the mean.
  const auto kernel = [&](std::int64_t few_prefills, std::int64_t queries_min) {
    return SplitAttention(work_, {.decode = kFa2,
                                  .prefill = kFa3,
                                  .fa3_queries_min = 10,
                                  .fa3_queries_min_of_few = queries_min,
                                  .few_prefills = few_prefills})
        .prefill_kernel;
  };
  EXPECT_EQ(kernel(2, 16), kFa3);
  EXPECT_EQ(kernel(3, 16), kFa2);
  EXPECT_EQ(kernel(3, 15), kFa3);
}

// The prefills have 10 and 20 queries, and 10 and 40 keys.
TEST_F(AttentionSplitTest, PrefillsByFa3AreFreshIfAllBeginAtZero) {
  AttentionChoice choice{.decode = kFa2, .prefill = kFa3, .fa3_queries_min = 10};
  EXPECT_FALSE(SplitAttention(work_, choice).prefills.fresh);
  kv_lengths_.back() = 20;
  EXPECT_TRUE(SplitAttention(work_, choice).prefills.fresh);
  EXPECT_FALSE(SplitAttention(work_, choice).decodes.fresh);
  choice.fa3_reads_rows = false;
  EXPECT_FALSE(SplitAttention(work_, choice).prefills.fresh);
  choice = {.decode = kFa2, .prefill = kFa3, .fa3_queries_min = 16};  // kFa2 takes them
  EXPECT_FALSE(SplitAttention(work_, choice).prefills.fresh);
  EXPECT_FALSE(SplitAttention(work_, {.decode = kFa2, .prefill = kFa2}).prefills.fresh);
  EXPECT_FALSE(SplitAttention(work_, {}).prefills.fresh);
}

TEST_F(AttentionSplitTest, DecodesAloneAreNotFresh) {
  work_.sequences = 3;
  work_.rows = 3;
  kv_lengths_ = {1, 1, 1};
  const AttentionSplit split = SplitAttention(work_, {.decode = kFa2, .prefill = kFa3});
  EXPECT_FALSE(split.decodes.fresh);
  EXPECT_FALSE(split.prefills.fresh);
}

TEST_F(AttentionSplitTest, GivesAllRowsToAGenericPrefill) {
  const AttentionSplit split = SplitAttention(work_, {.decode = kFa2, .prefill = kGeneric});
  EXPECT_EQ(split.decodes.sequences, 0);
  EXPECT_EQ(split.prefills.sequences, 5);
  EXPECT_EQ(split.prefills.first_row, 0);
  EXPECT_EQ(split.prefills.rows, 33);
}

TEST_F(AttentionSplitTest, LeavesDecodesAloneToTheirKernelWhereNothingIsPrefilled) {
  work_.sequences = 3;
  work_.rows = 3;
  const AttentionSplit split = SplitAttention(work_, {.decode = kFa2, .prefill = kGeneric});
  EXPECT_EQ(split.decode_kernel, kFa2);
  EXPECT_EQ(split.decodes.sequences, 3);
  EXPECT_EQ(split.prefills.sequences, 0);
}

TEST_F(AttentionSplitTest, PassesOnThatDecodesAreCaptured) {
  work_.sequences = 3;
  work_.rows = 3;
  work_.graph = true;
  EXPECT_TRUE(SplitAttention(work_, {.decode = kFa2, .prefill = kFa3}).decodes.graph);
}

using AttentionSplitDeathTest = AttentionSplitTest;

TEST_F(AttentionSplitDeathTest, OnlyDecodesAreCaptured) {
  work_.graph = true;
  EXPECT_DEATH(SplitAttention(work_, {}), "graph");
}

TEST_F(AttentionSplitDeathTest, DecodesHaveOneQueryEach) {
  work_.decodes = 4;
  EXPECT_DEATH(SplitAttention(work_, {}), "first_query");
}

}  // namespace
}  // namespace twin::kernels::cuda
