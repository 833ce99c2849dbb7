// Routers one by one, with choices derived by hand, and what they know of their replicas.
#include "sched/route/router.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/random.h"
#include "sched/route/prefix_index.h"
#include "sched/route/telemetry.h"

namespace twin {
namespace {

constexpr TimePoint At(std::int64_t ns) { return kTimeZero + Duration{ns}; }

std::vector<BlockKey> Keys(std::uint64_t first, std::size_t count) {
  std::vector<BlockKey> keys;
  for (std::size_t i = 0; i < count; ++i) keys.push_back(BlockKey{first + i});
  return keys;
}

std::vector<BlockKey> Joined(std::vector<BlockKey> first, const std::vector<BlockKey>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Request Asking(std::uint32_t id, std::int32_t prompt_tokens = 0,
               std::span<const BlockKey> keys = {}) {
  Request request;
  request.id = RequestId{id};
  request.prompt_tokens = prompt_tokens;
  request.prefix_keys = keys;
  return request;
}

Request OfSession(std::uint32_t id, std::uint64_t session) {
  Request request = Asking(id);
  request.session = session;
  return request;
}

// Sends requests and counts them, as a cluster does.
class Desk {
 public:
  Desk(RouterKind kind, std::int32_t replicas, Duration delay = Duration{0})
      : router_(MakeRouter({.kind = kind}, replicas, 4, 1)), telemetry_(replicas, delay, 4) {}

  std::int32_t Send(std::int32_t prompt_tokens, std::int64_t ns = 0) {
    if (ns > latest_ns_) telemetry_.Receive(At(ns));
    latest_ns_ = ns;
    const Request request = Asking(next_++, prompt_tokens);
    const std::int32_t replica = router_->Choose(request, At(ns), telemetry_.loads());
    telemetry_.Send(At(ns), replica, request);
    return replica;
  }
  std::vector<std::int32_t> Send(const std::vector<std::int32_t>& prompts) {
    std::vector<std::int32_t> chosen;
    for (const std::int32_t prompt : prompts) chosen.push_back(Send(prompt));
    return chosen;
  }
  Telemetry& telemetry() { return telemetry_; }

 private:
  std::unique_ptr<Router> router_;
  Telemetry telemetry_;
  std::uint32_t next_ = 0;
  std::int64_t latest_ns_ = -1;
};

using Choices = std::vector<std::int32_t>;

TEST(RouterTest, RoundRobinTakesReplicasInTurn) {
  EXPECT_EQ(Desk(RouterKind::kRoundRobin, 3).Send({9, 9, 9, 9, 9}), (Choices{0, 1, 2, 0, 1}));
}

TEST(RouterTest, LeastRequestsCountsRequests) {
  EXPECT_EQ(Desk(RouterKind::kLeastRequests, 2).Send({100, 10, 10, 10}), (Choices{0, 1, 0, 1}));
}

// 101 tokens at replica 0; 11, 22 and 33 at replica 1.
TEST(RouterTest, LeastTokensCountsPromptsAndFirstTokens) {
  Desk desk(RouterKind::kLeastTokens, 2);
  EXPECT_EQ(desk.Send({100, 10, 10, 10}), (Choices{0, 1, 1, 1}));
  EXPECT_EQ(desk.telemetry().loads().prompt_tokens[1] + desk.telemetry().loads().unanswered[1], 33);
}

// 3 blocks of 4 tokens for 12 tokens; 1 for 4.
TEST(RouterTest, LeastKvCountsBlocksOfPromptsOnTheirWay) {
  EXPECT_EQ(Desk(RouterKind::kLeastKv, 2).Send({12, 4, 4, 4, 4}), (Choices{0, 1, 1, 1, 0}));
}

// What a replica reports takes the place of what was sent to it.
TEST(RouterTest, LeastKvFollowsReportsOnceTheyHaveArrived) {
  Desk desk(RouterKind::kLeastKv, 2, Duration{10});
  EXPECT_EQ(desk.Send(12, 0), 0);                               // 3, 0
  desk.telemetry().Report(At(0), {.replica = 0, .blocks = 1});  // 1 admitted of 3
  EXPECT_EQ(desk.Send(8, 5), 1);                                // 3, 2
  EXPECT_EQ(desk.Send(4, 9), 1);                                // 3, 3
  EXPECT_EQ(desk.Send(4, 10), 0);                               // 1 + 1, 3
  EXPECT_EQ(desk.telemetry().loads().blocks, (std::vector<std::int64_t>{2, 3}));
}

TEST(RouterTest, HearsOfDeparturesAfterTheDelay) {
  Desk desk(RouterKind::kLeastRequests, 2, Duration{10});
  EXPECT_EQ(desk.Send(8, 0), 0);
  EXPECT_EQ(desk.Send(8, 0), 1);
  desk.telemetry().Report(At(3), {.replica = 1, .requests_left = 1});
  EXPECT_EQ(desk.Send(8, 5), 0);   // 1, 1 as far as it knows
  EXPECT_EQ(desk.Send(8, 12), 1);  // 2, 1
  EXPECT_EQ(desk.Send(8, 13), 1);  // 2, 1: replica 1 had 2, of which 1 has left
}

TEST(RouterTest, PowerOfTwoComparesTwoRandomReplicas) {
  constexpr std::int32_t kReplicas = 5;
  const std::unique_ptr<Router> router =
      MakeRouter({.kind = RouterKind::kPowerOfTwo}, kReplicas, 4, 7);
  Random random(7, "router");
  ReplicaLoads loads;
  loads.requests = {3, 1, 4, 1, 5};
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t first = random.UniformInt(0, kReplicas - 1);
    std::int64_t second = random.UniformInt(0, kReplicas - 2);
    second += second >= first ? 1 : 0;
    const auto load = [&](std::int64_t k) { return loads.requests[static_cast<std::size_t>(k)]; };
    ASSERT_EQ(router->Choose(Asking(0), kTimeZero, loads),
              load(second) < load(first) ? second : first);
  }
}

TEST(RouterTest, RandomIsUniformAndFollowsTheSeed) {
  const auto choices = [](std::uint64_t seed) {
    const std::unique_ptr<Router> router = MakeRouter({.kind = RouterKind::kRandom}, 4, 4, seed);
    Choices chosen;
    for (int i = 0; i < 10'000; ++i) chosen.push_back(router->Choose(Asking(0), kTimeZero, {}));
    return chosen;
  };
  const Choices chosen = choices(1);
  EXPECT_EQ(chosen, choices(1));
  EXPECT_NE(chosen, choices(2));
  // A binomial count of 10,000 draws at 1/4 has a standard deviation of 43.
  for (std::int32_t k = 0; k < 4; ++k) {
    EXPECT_NEAR(static_cast<double>(std::count(chosen.begin(), chosen.end(), k)), 2500, 5 * 43);
  }
}

TEST(RouterTest, SessionsStayAndMoveOnlyToANewReplica) {
  const std::unique_ptr<Router> ten = MakeRouter({.kind = RouterKind::kSessionHash}, 10, 4, 1);
  const std::unique_ptr<Router> eleven = MakeRouter({.kind = RouterKind::kSessionHash}, 11, 4, 1);
  int moved = 0;
  for (std::uint64_t session = 1; session <= 1100; ++session) {
    const Request request = OfSession(static_cast<std::uint32_t>(session), session * 1'000'003);
    const Request later = OfSession(5000, request.session);
    const std::int32_t before = ten->Choose(request, kTimeZero, {});
    const std::int32_t after = eleven->Choose(request, kTimeZero, {});
    EXPECT_EQ(ten->Choose(later, kTimeZero, {}), before);
    EXPECT_TRUE(after == before || after == 10);
    moved += after == 10 ? 1 : 0;
  }
  EXPECT_NEAR(moved, 100, 50);  // 1,100 / 11; standard deviation 9.5
}

TEST(RouterTest, WithoutSessionsEqualFirstBlocksMeet) {
  const std::unique_ptr<Router> router = MakeRouter({.kind = RouterKind::kSessionHash}, 100, 4, 1);
  const std::vector<BlockKey> short_prompt = Keys(77, 1);
  const std::vector<BlockKey> long_prompt = Keys(77, 9);
  EXPECT_EQ(router->Choose(Asking(1, 4, short_prompt), kTimeZero, {}),
            router->Choose(Asking(2, 36, long_prompt), kTimeZero, {}));
  EXPECT_NE(router->Choose(Asking(1), kTimeZero, {}), router->Choose(Asking(2), kTimeZero, {}));
}

class PrefixAffinityTest : public ::testing::Test {
 protected:
  std::int32_t Choose(const std::vector<BlockKey>& keys, std::vector<std::int32_t> requests) {
    ReplicaLoads loads;
    loads.requests = std::move(requests);
    const auto tokens = static_cast<std::int32_t>(4 * keys.size());
    return router_->Choose(Asking(0, tokens, keys), kTimeZero, loads);
  }

  std::unique_ptr<Router> router_ = MakeRouter({.kind = RouterKind::kPrefixAffinity}, 2, 4, 1);
};

// 4 of 10 blocks match replica 0, which is not more than half.
TEST_F(PrefixAffinityTest, AShortMatchGoesToTheSmallestTree) {
  EXPECT_EQ(Choose(Keys(100, 4), {0, 0}), 0);
  EXPECT_EQ(Choose(Joined(Keys(100, 4), Keys(200, 6)), {3, 2}), 1);
}

TEST_F(PrefixAffinityTest, ALongMatchDecidesWhileLoadsAreBalanced) {
  EXPECT_EQ(Choose(Keys(100, 6), {0, 0}), 0);
  const std::vector<BlockKey> prompt = Joined(Keys(100, 6), Keys(200, 4));
  EXPECT_EQ(Choose(prompt, {34, 2}), 0);     // 32 more are not too many
  EXPECT_EQ(Choose(prompt, {35, 2}), 1);     // 33 more, and more than 1.1 times as many
  EXPECT_EQ(Choose(prompt, {440, 400}), 0);  // 40 more, but not more than 1.1 times as many
  EXPECT_EQ(Choose(prompt, {441, 400}), 1);
}

TEST_F(PrefixAffinityTest, PromptsWithoutContentGoToTheSmallestTree) {
  EXPECT_EQ(Choose(Keys(100, 6), {0, 0}), 0);
  EXPECT_EQ(Choose({}, {0, 0}), 1);
}

// 8 tokens wait at replica 0; 3 of the prompt's 4 blocks of 4 tokens were sent there before.
TEST(KvOverlapTest, AddsBlocksToComputeAndBlocksHeld) {
  const std::vector<BlockKey> sent = Keys(100, 3);
  const std::vector<BlockKey> keys = Keys(100, 4);
  ReplicaLoads loads;
  loads.prompt_tokens = {8, 0};
  const auto choose = [&](double weight, std::vector<std::int64_t> blocks) {
    const std::unique_ptr<Router> router =
        MakeRouter({.kind = RouterKind::kKvOverlap, .overlap_weight = weight}, 2, 4, 1);
    loads.blocks = {0, 100};
    EXPECT_EQ(router->Choose(Asking(0, 12, sent), kTimeZero, loads), 0);
    loads.blocks = std::move(blocks);
    return router->Choose(Asking(1, 16, keys), kTimeZero, loads);
  };
  EXPECT_EQ(choose(1, {10, 12}), 0);  // (8 + 16 - 12) / 4 + 10 = 13; 16 / 4 + 12 = 16
  EXPECT_EQ(choose(1, {14, 12}), 1);  // 17; 16
  EXPECT_EQ(choose(3, {14, 12}), 0);  // 23; 24
  EXPECT_EQ(choose(1, {13, 12}), 0);  // 16 each
}

// Blocks of 4 tokens with two keys each. The prompts share the first block and half of the second.
TEST(KvOverlapTest, CountsWholeBlocksWhereTheyHaveSeveralKeys) {
  const std::unique_ptr<Router> router = MakeRouter({.kind = RouterKind::kKvOverlap}, 2, 4, 1, 2);
  const std::vector<BlockKey> sent = Keys(100, 4);
  const std::vector<BlockKey> keys = Joined(Keys(100, 3), Keys(200, 1));
  ReplicaLoads loads;
  loads.prompt_tokens = {0, 0};
  loads.blocks = {0, 100};
  EXPECT_EQ(router->Choose(Asking(0, 8, sent), kTimeZero, loads), 0);
  loads.blocks = {1, 0};  // (8 - 4) / 4 + 1 = 2; 8 / 4 = 2
  EXPECT_EQ(router->Choose(Asking(1, 8, keys), kTimeZero, loads), 0);
  loads.blocks = {2, 0};  // 3; 2
  const std::vector<BlockKey> others = Joined(Keys(100, 3), Keys(300, 1));
  EXPECT_EQ(router->Choose(Asking(2, 8, others), kTimeZero, loads), 1);
}

TEST(PrefixIndexTest, MatchesLeadingBlocksPerReplica) {
  PrefixIndex index(3, 100, Duration{1000});
  index.Insert(0, BlockKeys(Keys(10, 3)), kTimeZero);
  index.Insert(2, BlockKeys(Keys(10, 5)), kTimeZero);
  EXPECT_EQ(index.Match(BlockKeys(Keys(10, 4))), (std::vector<std::int32_t>{3, 0, 4}));
  EXPECT_EQ(index.Match(BlockKeys(Keys(90, 4))), (std::vector<std::int32_t>{0, 0, 0}));
  EXPECT_EQ(index.sizes(), (std::vector<std::int64_t>{3, 0, 5}));
}

TEST(PrefixIndexTest, StopsAtContentThatNoOtherRequestHas) {
  PrefixIndex index(1, 100, Duration{1000});
  const std::vector<BlockKey> keys = {BlockKey{1}, PrivateKey(2)};
  index.Insert(0, BlockKeys(keys), kTimeZero);
  EXPECT_EQ(index.size(0), 1);
  EXPECT_EQ(index.Match(BlockKeys(keys)), (std::vector<std::int32_t>{1}));
}

// Two prompts that share 2 blocks, 2 + 3 + 1 nodes. The cut to 4 takes the end of the older one.
TEST(PrefixIndexTest, CutsTheLeastRecentlyUsedLeaves) {
  PrefixIndex index(2, 4, Duration{1000});
  const std::vector<BlockKey> older = Joined(Keys(1, 2), Keys(20, 3));
  const std::vector<BlockKey> newer = Joined(Keys(1, 2), Keys(30, 1));
  index.Insert(0, BlockKeys(older), At(0));
  index.Insert(0, BlockKeys(newer), At(1));
  EXPECT_EQ(index.size(0), 6);
  index.Insert(1, BlockKeys(Keys(1, 1)), At(1000));
  EXPECT_EQ(index.sizes(), (std::vector<std::int64_t>{4, 1}));
  EXPECT_EQ(index.Match(BlockKeys(older)), (std::vector<std::int32_t>{3, 1}));
  EXPECT_EQ(index.Match(BlockKeys(newer)), (std::vector<std::int32_t>{3, 1}));
}

}  // namespace
}  // namespace twin
