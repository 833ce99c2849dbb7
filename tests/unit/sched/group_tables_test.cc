// Expected values: worked examples of the KV cache manager of vLLM 0.33.0 (its block 0 is the null
// block, so that its numbers are larger by one), or by hand where no source is named.
#include "sched/cache/group_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/input_error.h"
#include "sched/engine.h"
#include "sched/policy/policy_config.h"
#include "sched/policy/vllm_v1.h"

namespace twin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr RequestId kA{0};
constexpr RequestId kB{1};
constexpr RequestId kC{2};
constexpr RequestId kD{3};
constexpr KvGroup kFull4{.block_size = 4};
constexpr KvGroup kWindow8{.kind = KvGroupKind::kWindow, .block_size = 4, .span = 8};
constexpr KvGroup kFull8{.block_size = 8};
constexpr KvGroup kState8{.kind = KvGroupKind::kState, .block_size = 8};
constexpr std::int32_t kNo = -1;

// Tables over a pool of their own, with equal block sizes.
class GroupTablesTest : public ::testing::Test {
 protected:
  void Make(const std::vector<KvGroup>& groups, std::int32_t blocks, GroupLimits limits = {}) {
    const std::int32_t size = groups.front().block_size;
    pool_.emplace(KvPoolConfig{
        .block_size = size, .blocks = blocks, .release_order = ReleaseOrder::kKeylessFront});
    tables_.emplace(KvGroups{groups, size, size}, limits, *pool_);
  }

  // Takes blocks for a step that ends at `tokens`, and publishes what it fills.
  void Compute(RequestId id, std::int32_t tokens, std::span<const BlockKey> keys = {},
               std::int32_t prompt = 1) {
    ASSERT_TRUE(tables_->Grow(id, tokens, log_));
    if (!keys.empty()) tables_->Publish(id, keys, tokens, prompt);
    tables_->Returned(id, tokens);
    EXPECT_TRUE(tables_->Audit());
  }
  // Admits with what the cache has, and computes the rest in one step.
  std::int32_t Admit(RequestId id, std::span<const BlockKey> keys, std::int32_t prompt) {
    tables_->BeginStep();
    tables_->Lookup(keys, prompt - 1);
    const std::int32_t hit = tables_->Attach(id, log_);
    Compute(id, prompt, keys, prompt);
    return hit;
  }

  std::vector<std::int32_t> Table(RequestId id, std::size_t group) const {
    std::vector<std::int32_t> blocks;
    for (const BlockId block : tables_->Table(id, group)) {
      blocks.push_back(static_cast<std::int32_t>(block));
    }
    return blocks;
  }

  std::optional<KvPool> pool_;
  std::optional<GroupTables> tables_;
  std::vector<KvOperation> log_;
};

// Keys of `count` blocks, the first `shared` of which all requests have in common.
std::vector<BlockKey> Keys(RequestId id, std::size_t shared, std::size_t count) {
  std::vector<BlockKey> keys;
  for (std::size_t i = 0; i < count; ++i) {
    keys.push_back(SharedKey(i < shared ? i : 100 * (Index(id) + 1) + i));
  }
  return keys;
}

TEST(MostBlocksTest, CountsTheSpanAndTheTokensInFlight) {
  const auto most = [](KvGroupKind kind, std::int32_t span, std::int64_t in_flight) {
    const KvGroup group{.kind = kind, .block_size = 16, .span = span};
    return MostBlocks(group, {.tokens_in_flight = in_flight, .context_tokens = 131'072});
  };
  EXPECT_EQ(most(KvGroupKind::kWindow, 128, 16'384), 1'033);  // gpt-oss
  EXPECT_EQ(most(KvGroupKind::kWindow, 128, 8'192), 521);
  EXPECT_EQ(most(KvGroupKind::kWindow, 1'024, 16'384), 1'089);   // Gemma 3
  EXPECT_EQ(most(KvGroupKind::kWindow, 4'096, 16'384), 1'281);   // Mistral
  EXPECT_EQ(most(KvGroupKind::kChunked, 8'192, 16'384), 1'536);  // Llama 4
  EXPECT_EQ(most(KvGroupKind::kFull, 0, 16'384), 8'192);
  EXPECT_EQ(MostBlocks(kState8, {}), 2);
}

TEST(NeedGroupTablesTest, UnlessThereIsOneGroupOfAllTokens) {
  EXPECT_FALSE(NeedGroupTables({}));
  EXPECT_TRUE(NeedGroupTables({{kWindow8}, 4, 4}));
  EXPECT_TRUE(NeedGroupTables({{kFull4, kFull4}, 4, 4}));
}

// Window 8, a budget of 8: a request of 60 tokens counts 5 blocks, and its first chunk takes 2.
TEST_F(GroupTablesTest, AnAdmissionCountsWhatAGroupNeedsAtATime) {
  Make({kWindow8}, 12, {.tokens_in_flight = 8, .context_tokens = 64});
  const CacheHit none;
  EXPECT_EQ(tables_->BlocksForWhole(60, none), 5);
  EXPECT_EQ(tables_->BlocksToAdmit(8, none), 2);
  EXPECT_EQ(tables_->BlocksAtMost(60), 5);
  EXPECT_EQ(tables_->BlocksAtMost(8), 2);
  for (const std::int32_t free : {10, 8, 6, 4}) {
    Compute(RequestId{static_cast<std::uint32_t>(free)}, 8);
    EXPECT_EQ(pool_->free(), free);
  }
}

// A prompt of 30 in chunks of 10, then decodes.
TEST_F(GroupTablesTest, GivesBackWhatLiesBehindTheWindow) {
  Make({kFull4, kWindow8}, 39);
  std::vector<std::int32_t> free;
  for (const std::int32_t end : {10, 20, 30, 31, 32, 33, 34}) {
    Compute(kA, end);
    free.push_back(pool_->free());
  }
  EXPECT_THAT(free, ElementsAre(33, 29, 26, 28, 29, 27, 27));
  EXPECT_THAT(Table(kA, 0), ElementsAre(0, 1, 2, 6, 7, 5, 4, 3, 10));
  EXPECT_THAT(Table(kA, 1), ElementsAre(kNo, kNo, kNo, kNo, kNo, kNo, 11, 12, 9));
}

// A step of 10 tokens is in flight: the next one frees behind the token at which that one began.
TEST_F(GroupTablesTest, CountsTheWindowFromTokensThatHaveReturned) {
  Make({kWindow8}, 20);
  Compute(kA, 10);
  ASSERT_TRUE(tables_->Grow(kA, 20, log_));
  EXPECT_THAT(Table(kA, 0), ElementsAre(0, 1, 2, 3, 4));
  ASSERT_TRUE(tables_->Grow(kA, 21, log_));
  EXPECT_THAT(Table(kA, 0), ElementsAre(0, 1, 2, 3, 4, 5));
  tables_->Returned(kA, 20);
  ASSERT_TRUE(tables_->Grow(kA, 22, log_));
  EXPECT_THAT(Table(kA, 0), ElementsAre(kNo, kNo, kNo, 3, 4, 5));
}

TEST_F(GroupTablesTest, GivesBackWhatLiesBeforeTheChunk) {
  Make({{.kind = KvGroupKind::kChunked, .block_size = 4, .span = 8}}, 10);
  Compute(kA, 15);
  Compute(kA, 16);
  EXPECT_THAT(Table(kA, 0), ElementsAre(kNo, kNo, 2, 3));
  Compute(kA, 22);
  EXPECT_THAT(Table(kA, 0), ElementsAre(kNo, kNo, kNo, kNo, 3, 2));
}

// Each group needs 3 of 5 free blocks. Blocks behind the window come back all the same.
TEST_F(GroupTablesTest, FreesEvenIfItThenCannotGrow) {
  Make({kFull4, kWindow8}, 9);
  Compute(kA, 8);
  Compute(kA, 12);
  EXPECT_EQ(pool_->free(), 3);
  EXPECT_FALSE(tables_->Grow(kA, 24, log_));
  EXPECT_THAT(Table(kA, 1), ElementsAre(kNo, 3, 5));
  EXPECT_EQ(pool_->free(), 4);
}

TEST_F(GroupTablesTest, TellsExecutorsOfEachChange) {
  using Kind = KvOperation::Kind;
  Make({kFull8, kState8}, 9);
  Compute(kA, 16);
  EXPECT_THAT(log_, ElementsAre(KvOperation{Kind::kAllocateIn, kA, BlockId{0}, BlockId{0}},
                                KvOperation{Kind::kAllocateIn, kA, BlockId{1}, BlockId{0}},
                                KvOperation{Kind::kSkipIn, kA, BlockId::kNone, BlockId{1}},
                                KvOperation{Kind::kAllocateIn, kA, BlockId{2}, BlockId{1}}));
  Compute(kA, 20);
  log_.clear();
  Compute(kA, 21);
  EXPECT_THAT(log_, ElementsAre(KvOperation{Kind::kDropFrom, kA, BlockId{2}, BlockId{1}}));
}

// Each group from its last block; what has no key lies in front then, the last group foremost.
TEST_F(GroupTablesTest, ReleasesTheGroupsInOrder) {
  Make({kFull4, kWindow8}, 6);
  Compute(kA, 8);
  tables_->Release(kA);
  EXPECT_TRUE(tables_->empty());
  std::vector<std::int32_t> order;
  while (pool_->free() > 0) order.push_back(static_cast<std::int32_t>(pool_->TakeBlock()));
  EXPECT_THAT(order, ElementsAre(3, 2, 1, 0, 4, 5));
}

// A has 21 tokens, and B the same; C and D share 16 of them.
TEST_F(GroupTablesTest, AWindowIsKeptWherePromptsEndAndWhereTheyPart) {
  Make({kFull4, kWindow8}, 60);
  EXPECT_EQ(Admit(kA, Keys(kA, 5, 5), 21), 0);
  tables_->Lookup(Keys(kB, 5, 5), 20);
  EXPECT_EQ(tables_->Attach(kB, log_), 20);
  EXPECT_THAT(Table(kB, 1), ElementsAre(kNo, kNo, kNo, 9, 10));
  EXPECT_EQ(tables_->junction(kB), 0);

  EXPECT_EQ(Admit(kC, Keys(kC, 4, 5), 21), 0);
  EXPECT_EQ(tables_->junction(kC), 16);
  EXPECT_EQ(Admit(kD, Keys(kD, 4, 5), 21), 16);
}

TEST_F(GroupTablesTest, AWindowIsKeptEverywhereIfAllIsRetained) {
  Make({kFull4, kWindow8}, 60, {.retention_interval = GroupLimits::kRetainAll});
  EXPECT_EQ(Admit(kA, Keys(kA, 5, 5), 21), 0);
  EXPECT_EQ(Admit(kC, Keys(kC, 4, 5), 21), 16);
}

// The prompt's end, 20, and the interval, 8: entries 0 to 4 serve 8, 16 or 20, but none serves 12.
TEST_F(GroupTablesTest, AWindowIsKeptAtEachInterval) {
  Make({kFull4, {.kind = KvGroupKind::kWindow, .block_size = 4, .span = 5}}, 60,
       {.retention_interval = 8});
  EXPECT_EQ(Admit(kA, Keys(kA, 5, 5), 21), 0);
  EXPECT_EQ(Admit(kB, Keys(kB, 2, 5), 21), 8);
  EXPECT_EQ(Admit(kC, Keys(kC, 3, 5), 21), 8);
  EXPECT_EQ(tables_->junction(kC), 12);
}

// A hit of a window alone needs no blocks before the window.
TEST_F(GroupTablesTest, AWindowAloneHitsWithoutItsBeginning) {
  Make({kWindow8}, 60);
  EXPECT_EQ(Admit(kA, Keys(kA, 5, 5), 21), 0);
  EXPECT_EQ(Admit(kB, Keys(kB, 5, 5), 21), 20);
  EXPECT_THAT(Table(kB, 0), ElementsAre(kNo, kNo, kNo, 3, 4, 6));
}

// Hits of blocks that nobody holds take them out of the free queue.
TEST_F(GroupTablesTest, AHitCountsItsFreeBlocks) {
  Make({kFull4, kWindow8}, 60);
  Admit(kA, Keys(kA, 5, 5), 21);
  EXPECT_EQ(tables_->Lookup(Keys(kB, 5, 5), 20).free_blocks, 0);
  tables_->Release(kA);
  const CacheHit hit = tables_->Lookup(Keys(kB, 5, 5), 20);
  EXPECT_EQ(hit.tokens, 20);
  EXPECT_EQ(hit.free_blocks, 5 + 2);
  EXPECT_EQ(tables_->BlocksToAdmit(21, hit), 5 + 2 + 1 + 1);
}

// Prompt of 20: chunks of 16 and 4, then decodes.
TEST_F(GroupTablesTest, AStateMovesOnAndStaysInTheCacheAtTheEndOfAChunk) {
  Make({kFull8, kState8}, 40);
  const std::vector<BlockKey> keys = Keys(kA, 3, 3);
  tables_->Lookup(keys, 19);
  EXPECT_EQ(tables_->Attach(kA, log_), 0);
  Compute(kA, 16, keys, 20);
  EXPECT_THAT(Table(kA, 1), ElementsAre(kNo, 2));
  Compute(kA, 20, keys, 20);
  EXPECT_THAT(Table(kA, 1), ElementsAre(kNo, 2, 4));
  for (std::int32_t end = 21; end <= 25; ++end) Compute(kA, end, keys, 20);
  EXPECT_THAT(Table(kA, 1), ElementsAre(kNo, kNo, 4, 6));
  Compute(kA, 26, keys, 20);
  EXPECT_THAT(Table(kA, 1), ElementsAre(kNo, kNo, kNo, 6));

  tables_->BeginStep();
  tables_->Lookup(Keys(kB, 3, 3), 19);
  EXPECT_EQ(tables_->Attach(kB, log_), 16);
  EXPECT_THAT(Table(kB, 1), ElementsAre(kNo, 2));

  tables_->Lookup(Keys(kC, 1, 3), 19);
  EXPECT_EQ(tables_->Attach(kC, log_), 0);
  EXPECT_EQ(tables_->junction(kC), 8);
}

TEST_F(GroupTablesTest, AStateOfThisStepCanBeHitFromTheNextOn) {
  Make({kFull8, kState8}, 40);
  const std::vector<BlockKey> keys = Keys(kA, 2, 2);
  tables_->BeginStep();
  tables_->Lookup(keys, 16);
  tables_->Attach(kA, log_);
  Compute(kA, 16, keys, 17);
  EXPECT_TRUE(tables_->Lookup(Keys(kB, 2, 2), 16).is_being_computed);
  tables_->BeginStep();
  const CacheHit hit = tables_->Lookup(Keys(kB, 2, 2), 16);
  EXPECT_FALSE(hit.is_being_computed);
  EXPECT_EQ(hit.tokens, 16);
}

TEST_F(GroupTablesTest, OneStateLastsForTheWholeLife) {
  Make({{.kind = KvGroupKind::kState, .block_size = 64, .states = StateBlocks::kOne}}, 2);
  for (const std::int32_t end : {10, 40, 64}) Compute(kA, end);
  EXPECT_THAT(Table(kA, 0), ElementsAre(0));
  EXPECT_EQ(pool_->free(), 1);
}

// Blocks of 8 and 4 tokens: hits, and what is published, end at multiples of 8.
TEST_F(GroupTablesTest, GroupsOfDifferentBlocksAgreeOnACommonMultiple) {
  pool_.emplace(KvPoolConfig{.block_size = 4, .blocks = 60});
  tables_.emplace(KvGroups{{kFull8, {.kind = KvGroupKind::kWindow, .block_size = 4, .span = 5}},
                           /*scheduler_block=*/8,
                           /*hash_block=*/4},
                  GroupLimits{}, *pool_);
  EXPECT_EQ(Admit(kA, Keys(kA, 5, 5), 23), 0);
  EXPECT_EQ(Admit(kB, Keys(kB, 5, 5), 23), 16);
}

// The item is taken out of its step again.
TEST_F(GroupTablesTest, WithdrawnBlocksLeaveTheCache) {
  Make({kFull4, kWindow8}, 60);
  Admit(kA, Keys(kA, 5, 5), 21);
  tables_->Unpublish(kA, 0);
  EXPECT_EQ(tables_->Lookup(Keys(kB, 5, 5), 20).tokens, 0);
}

std::string Refusal(const VllmV1Config& config, std::int32_t blocks) {
  const KvGroups groups{{kFull4, kWindow8}, 4, 4};
  try {
    ValidateKvGroups(groups, TraitsOf(config), blocks);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// 64 tokens are 16 blocks of the full group and ceil(min(7 + 8, 64) / 4) + 1 of the window.
TEST(ValidateKvGroupsTest, RefusesWhatCannotBeServed) {
  VllmV1Config config;
  config.max_num_batched_tokens = 8;
  config.max_model_len = 64;
  EXPECT_EQ(Refusal(config, 21), "");
  EXPECT_THAT(Refusal(config, 20), HasSubstr("20 KV blocks do not hold a sequence of 64 tokens"));
  config.async_scheduling = true;  // twice as many tokens in flight
  EXPECT_THAT(Refusal(config, 21), HasSubstr("allowed: 23 blocks or more"));
  config.prefix_cache_retention_interval = 6;
  EXPECT_THAT(Refusal(config, 40), HasSubstr("allowed for this model: a multiple of 4, 0 or -1"));
  config = {};
  config.release = VllmV1Release::k0_15_1;  // publishes every block of windows, at any boundary
  config.prefix_cache_retention_interval = 6;
  EXPECT_EQ(Refusal(config, 40), "");
  config.speculation.num_speculative_tokens = 2;
  EXPECT_THAT(Refusal(config, 40), HasSubstr("vllm_v1 without speculation"));
}

}  // namespace
}  // namespace twin
