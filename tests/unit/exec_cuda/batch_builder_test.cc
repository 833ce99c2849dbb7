#include "exec/cuda/batch_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exec/cuda/decode_buckets.h"
#include "sched/computed_rows.h"

namespace twin::exec::cuda {
namespace {

using ::testing::ElementsAre;

constexpr std::int32_t kBlockSize = 4;

// Requests 0 (7 known tokens, blocks 5, 2), 1 (3, block 7) and 2 (9, blocks 1, 0, 3).
OpenRequests ThreeRequests() {
  OpenRequests requests;
  const std::vector<std::vector<std::int32_t>> tokens = {
      {10, 11, 12, 13, 14, 15, 16}, {20, 21, 22}, {30, 31, 32, 33, 34, 35, 36, 37, 38}};
  const std::vector<std::vector<std::int32_t>> blocks = {{5, 2}, {7}, {1, 0, 3}};
  for (std::uint32_t i = 0; i < 3; ++i) {
    requests.Open(RequestId{i}, tokens[i], {.seed = i + 1});
    for (const std::int32_t block : blocks[i]) {
      requests[RequestId{i}].blocks.push_back(BlockId{block});
    }
  }
  return requests;
}

WorkItem Item(std::uint32_t request, std::int32_t start, std::int32_t tokens, bool emits) {
  return {.request = RequestId{request}, .start = start, .tokens = tokens, .emits = emits};
}

class BatchBuilderTest : public ::testing::Test {
 protected:
  // Builds the batch in memory of the host.
  void Build(const StepPlan& plan, bool all_rows = false, std::int64_t bucket = 0) {
    builder_.Arrange(plan, requests_,
                     {.block_size = kBlockSize, .logits_of_all_rows = all_rows, .bucket = bucket});
    memory_.assign(
        static_cast<std::size_t>(ArenaBytes(builder_.shape(), builder_.pages())) / 16 + 1, {});
    arrays_ = ArraysAt(reinterpret_cast<std::byte*>(memory_.data()), builder_.shape());
    builder_.Write(plan, requests_, arrays_);
  }

  template <class T>
  static std::vector<T> Values(const T* array, std::int64_t count) {
    return {array, array + count};
  }

  struct alignas(16) Line {
    std::byte bytes[16];
  };

  OpenRequests requests_ = ThreeRequests();
  BatchBuilder builder_;
  std::vector<Line> memory_;
  StepArrays arrays_;
};

TEST_F(BatchBuilderTest, SingleTokensComeFirstAndPagesCoverTheContext) {
  StepPlan plan;
  plan.work = {Item(2, 5, 4, true), Item(0, 6, 1, true), Item(1, 0, 2, false)};
  Build(plan);
  EXPECT_EQ(builder_.shape(), (StepShape{.rows = 7, .sequences = 3, .logit_rows = 2}));
  EXPECT_THAT(Values(arrays_.token_ids, 7), ElementsAre(16, 35, 36, 37, 38, 20, 21));
  EXPECT_THAT(Values(arrays_.positions, 7), ElementsAre(6, 5, 6, 7, 8, 0, 1));
  // Position 6 of request 0 is place 2 of block 2; position 5 of request 2 is place 1 of block 0.
  EXPECT_THAT(Values(arrays_.slots, 7), ElementsAre(10, 1, 2, 3, 12, 28, 29));
  EXPECT_THAT(Values(arrays_.first_query, 4), ElementsAre(0, 1, 5, 7));
  EXPECT_THAT(Values(arrays_.kv_lengths, 3), ElementsAre(7, 9, 2));
  EXPECT_THAT(Values(arrays_.page_begin, 4), ElementsAre(0, 2, 5, 6));
  EXPECT_THAT(Values(arrays_.page_indices, 6), ElementsAre(5, 2, 1, 0, 3, 7));
  EXPECT_THAT(Values(arrays_.last_page_tokens, 3), ElementsAre(3, 1, 2));
  EXPECT_THAT(Values(arrays_.logit_rows, 2), ElementsAre(0, 4));
  EXPECT_EQ(arrays_.sampling[0].seed, 1U);
  EXPECT_EQ(arrays_.sampling[0].position, 7U);
  EXPECT_EQ(arrays_.sampling[1].seed, 3U);
  EXPECT_EQ(arrays_.sampling[1].position, 9U);
  const kernels::cuda::AttentionWork work = builder_.attention();
  EXPECT_EQ(work.decodes, 1);
  EXPECT_EQ(work.sequences, 3);
  EXPECT_EQ(work.rows, 7);
  // The first row of logits is that of the second item.
  ASSERT_EQ(builder_.logits().size(), 2U);
  EXPECT_EQ(builder_.logits()[0].item, 1);
  EXPECT_EQ(builder_.logits()[1].item, 0);
}

TEST_F(BatchBuilderTest, ABucketIsFilledWithSequencesThatHaveNoPages) {
  StepPlan plan;
  plan.work = {Item(1, 2, 1, true), Item(0, 6, 1, false)};
  Build(plan, false, 4);
  EXPECT_EQ(builder_.shape(), (StepShape{.rows = 4, .sequences = 4, .logit_rows = 4}));
  EXPECT_THAT(Values(arrays_.slots, 4), ElementsAre(30, 10, -1, -1));
  EXPECT_THAT(Values(arrays_.first_query, 5), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Values(arrays_.kv_lengths, 4), ElementsAre(3, 7, 0, 0));
  EXPECT_THAT(Values(arrays_.page_begin, 5), ElementsAre(0, 1, 3, 3, 3));
  EXPECT_THAT(Values(arrays_.last_page_tokens, 4), ElementsAre(3, 3, 1, 1));
  EXPECT_THAT(Values(arrays_.logit_rows, 4), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(builder_.attention().decodes, 4);
  // Rows of padding belong to nobody.
  EXPECT_EQ(builder_.logits().size(), 2U);
  EXPECT_FALSE(builder_.logits()[1].emits);
}

TEST_F(BatchBuilderTest, PaddingOfAPlanLiesBetweenDecodesAndChunks) {
  StepPlan plan;
  plan.work = {Item(2, 7, 2, true), Item(1, 2, 1, true)};
  plan.totals.padding_tokens = 2;
  Build(plan);
  EXPECT_THAT(Values(arrays_.token_ids, 5), ElementsAre(22, 0, 0, 37, 38));
  EXPECT_THAT(Values(arrays_.slots, 5), ElementsAre(30, -1, -1, 3, 12));
  EXPECT_THAT(Values(arrays_.first_query, 5), ElementsAre(0, 1, 2, 3, 5));
  EXPECT_THAT(Values(arrays_.logit_rows, 2), ElementsAre(0, 4));
  EXPECT_EQ(builder_.attention().decodes, 3);
}

TEST_F(BatchBuilderTest, LogitsOfAllRowsWhereAsked) {
  StepPlan plan;
  plan.work = {Item(0, 4, 3, true), Item(1, 2, 1, false)};
  Build(plan, true);
  EXPECT_THAT(Values(arrays_.logit_rows, 4), ElementsAre(0, 1, 2, 3));
  std::vector<bool> emits;
  for (const LogitSource& source : builder_.logits()) emits.push_back(source.emits);
  EXPECT_THAT(emits, ElementsAre(false, false, false, true));
}

TEST_F(BatchBuilderTest, ArraysKeepTheirPlacesWhateverTheNumberOfPages) {
  const StepShape shape{.rows = 3, .sequences = 2, .logit_rows = 1};
  EXPECT_EQ(ArenaBytes(shape, 100) - ArenaBytes(shape, 0), 400);
  std::byte base{};
  const StepArrays arrays = ArraysAt(&base, shape);
  const auto place = [&](const void* array) {
    return static_cast<const std::byte*>(array) - &base;
  };
  // Three int32 take 12 bytes: the next array begins at 16.
  EXPECT_EQ(place(arrays.token_ids), 0);
  EXPECT_EQ(place(arrays.positions), 16);
  EXPECT_EQ(place(arrays.page_indices), ArenaBytes(shape, 0));
}

// The totals that an engine gives its plans.
StepPlan WithTotals(std::vector<WorkItem> work, std::int64_t padding = 0) {
  StepPlan plan;
  plan.work = std::move(work);
  for (const WorkItem& item : plan.work) {
    plan.totals.emitting_items += item.emits ? 1 : 0;
    if (item.phase == Phase::kDecode) {
      ++plan.totals.decode_items;
    } else {
      ++plan.totals.prefill_items;
      plan.totals.prefill_tokens += item.tokens;
    }
  }
  plan.totals.padding_tokens = padding;
  return plan;
}

WorkItem Decode(std::uint32_t request, std::int32_t start) {
  WorkItem item = Item(request, start, 1, true);
  item.phase = Phase::kDecode;
  return item;
}

// A static batch with finished rows was predicted as its live rows alone, and one-token prefills
// were padded on the device only.
TEST_F(BatchBuilderTest, ComputesTheRowsThatCostModelsCharge) {
  const std::vector<std::uint32_t> buckets = {2, 4};
  struct Case {
    const char* name;
    StepPlan plan;
    ComputedRows rows;
  };
  const Case cases[] = {
      {"decodes", WithTotals({Decode(0, 6), Decode(1, 2), Decode(2, 8)}), {4, 4, 4}},
      {"a static batch with finished rows", WithTotals({Decode(0, 6)}, 2), {3, 1, 0}},
      {"a one-token prefill", WithTotals({Item(0, 6, 1, true)}), {2, 2, 2}},
      {"a one-token prefill and decodes",
       WithTotals({Item(0, 6, 1, true), Decode(1, 2), Decode(2, 8)}),
       {4, 4, 4}},
      {"a chunk and a decode", WithTotals({Item(0, 4, 3, false), Decode(1, 2)}), {4, 1, 0}},
      {"a padded prefill", WithTotals({Item(0, 0, 7, true), Item(1, 0, 3, true)}, 4), {14, 2, 0}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    EXPECT_EQ(ComputedRowsOf(one.plan, buckets), one.rows);
    EXPECT_EQ(ComputedRowsOf(one.plan.totals, buckets), one.rows);
    Build(one.plan, false, ComputedRowsOf(one.plan, buckets).bucket);
    EXPECT_EQ(builder_.shape().rows, one.rows.tokens);
    EXPECT_EQ(builder_.shape().logit_rows, one.rows.logits);
  }
  // More decodes than the last bucket holds.
  const std::vector<std::uint32_t> small = {1, 2};
  EXPECT_EQ(ComputedRowsOf(cases[0].plan.totals, small), (ComputedRows{3, 3, 0}));
  // A device without buckets.
  EXPECT_EQ(ComputedRowsOf(cases[0].plan.totals, {}), (ComputedRows{3, 3, 0}));
}

TEST(DecodeBucketsTest, AreVllmsAndHoldTheirSequences) {
  EXPECT_THAT(DecodeBuckets(20), ElementsAre(1, 2, 4, 8, 16, 24));
  EXPECT_EQ(DecodeBucketOf(256), 256);
  EXPECT_EQ(DecodeBucketOf(257), 272);
  EXPECT_EQ(DecodeBucketOf(512), 512);
  EXPECT_EQ(DecodeBucketOf(513), 0);
  EXPECT_EQ(DecodeBucketOf(0), 0);
  for (std::int64_t i = 1; i <= kDecodeBucketMax; ++i) {
    const std::int64_t bucket = DecodeBucketOf(i);
    EXPECT_GE(bucket, i);
    EXPECT_EQ(DecodeBucketOf(bucket), bucket);
  }
}

}  // namespace
}  // namespace twin::exec::cuda
