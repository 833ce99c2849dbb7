// Expected values: by hand from the rules in sched/policy/splitwise.h and its sources.
#include "sched/policy/splitwise.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/input_error.h"
#include "sched/cluster.h"
#include "sched/policy/registry.h"
#include "tests/support/decided_trace.h"
#include "tests/support/driven_cluster.h"

namespace twin::testing {
namespace {

using Requests = DrivenCluster::Requests;

SplitwiseConfig Config(std::int32_t max_batch_tokens) {
  SplitwiseConfig config;
  config.max_batch_tokens = max_batch_tokens;
  config.max_preemptions = 2;
  return config;
}

// A and B fill the step; C would be 10 tokens. Decodes follow the prompt of the next step. Each
// request takes the blocks of its prompt and its output at once: 7, 5 and 4.
TEST(SplitwisePolicyTest, PromptsAreBatchedUpToTheTokensOfAStep) {
  EXPECT_EQ(Decided(Config(8), {.block_size = 1, .blocks = 40}, {{1, 5, 2}, {1, 3, 2}, {1, 2, 2}}),
            "it1: A:P5 B:P3 | free=28\n"
            "it2: C:P2 A:D1 B:D1 | free=24 | fin=[A,B] | freeA=36\n"
            "it3: C:D1 | free=36 | fin=[C] | freeA=40\n");
}

// B is longer than a step may be, and computed in one of its own: A's decode waits. B has nothing
// to decode and takes the blocks of its prompt.
TEST(SplitwisePolicyTest, ALongerPromptIsAStepOfItsOwn) {
  EXPECT_EQ(Decided(Config(8), {.block_size = 1, .blocks = 40}, {{1, 5, 2}, {2, 12, 1}}),
            "it1: A:P5 | free=33\n"
            "it2: B:P12 | free=21 | fin=[B] | freeA=33\n"
            "it3: A:D1 | free=33 | fin=[A] | freeA=40\n");
}

// Step 3: D's prompt fills the step, and A, B and C lose their places. Step 4: so does E's; D,
// which has not begun to decode, waits since then. Step 5: two steps have left out A, B and C,
// which now come before the prompt of F; one place is left for D, and none for E. Step 6: F's
// prompt; A, B and C have aged for good. Step 7: they are back, and E, left out by steps 5 and 6,
// has aged, too.
TEST(SplitwisePolicyTest, PromptsPauseDecodesUntilTheseHaveAged) {
  EXPECT_EQ(Decided(Config(4), {.block_size = 1, .blocks = 60},
                    {{1, 1, 5}, {1, 1, 5}, {1, 1, 5}, {3, 4, 2}, {4, 4, 2}, {5, 4, 2}}),
            "it1: A:P1 B:P1 C:P1 | free=42\n"
            "it2: A:D1 B:D1 C:D1 | free=42\n"
            "it3: D:P4 | free=36\n"
            "it4: E:P4 | free=30\n"
            "it5: A:D1 B:D1 C:D1 D:D1 | free=30 | fin=[D] | freeA=36\n"
            "it6: F:P4 | free=30\n"
            "it7: A:D1 B:D1 C:D1 E:D1 | free=30 | fin=[E] | freeA=36\n"
            "it8: A:D1 B:D1 C:D1 F:D1 | free=36 | fin=[A,B,C,F] | freeA=60\n");
}

// D's prompt leaves one place, which A keeps. In the next step those that lost their places come
// first, and D, which has not begun to decode, last.
TEST(SplitwisePolicyTest, PausedDecodesComeBeforeRunningOnesAndTheseBeforeNewOnes) {
  EXPECT_EQ(Decided(Config(4), {.block_size = 1, .blocks = 60},
                    {{1, 1, 4}, {1, 1, 4}, {1, 1, 4}, {3, 3, 2}}),
            "it1: A:P1 B:P1 C:P1 | free=45\n"
            "it2: A:D1 B:D1 C:D1 | free=45\n"
            "it3: D:P3 A:D1 | free=40\n"
            "it4: B:D1 C:D1 A:D1 D:D1 | free=40 | fin=[A,D] | freeA=50\n"
            "it5: B:D1 C:D1 | free=50 | fin=[B,C] | freeA=60\n");
}

// Of two places the prompt of C takes one, and A, the earlier of two that have not begun to decode,
// the other one.
TEST(SplitwisePolicyTest, TheRequestsOfAStepAreLimited) {
  SplitwiseConfig config = Config(100);
  config.max_batch_size = 2;
  EXPECT_EQ(Decided(config, {.block_size = 1, .blocks = 60}, {{1, 1, 3}, {1, 1, 3}, {2, 1, 1}}),
            "it1: A:P1 B:P1 | free=52\n"
            "it2: C:P1 A:D1 | free=51 | fin=[C] | freeA=52\n"
            "it3: A:D1 B:D1 | free=52 | fin=[A] | freeA=56\n"
            "it4: B:D1 | free=56 | fin=[B] | freeA=60\n");
}

// A needs 6 blocks and B 5 of 10: B waits for A. C can never have its 11.
TEST(SplitwisePolicyTest, MemoryIsReservedToCompletion) {
  EXPECT_EQ(
      Decided(Config(100), {.block_size = 1, .blocks = 10}, {{1, 4, 2}, {1, 3, 2}, {1, 9, 2}}),
      "it1: A:P4 | free=4\n"
      "it2: A:D1 | free=4 | fin=[A] | freeA=10\n"
      "it3: B:P3 | rej=[C] | free=5\n"
      "it4: B:D1 | free=5 | fin=[B] | freeA=10\n");
}

Request Asking(std::uint32_t id, std::int32_t prompt_tokens, std::int32_t output_tokens) {
  Request request;
  request.id = RequestId{id};
  request.prompt_tokens = prompt_tokens;
  request.max_output_tokens = output_tokens;
  return request;
}

// Replicas 0 and 1 are at home in the prompt pool, 2 and 3 in the token pool, each with as many
// blocks of one token. Ten tokens may be pending where prompts wait.
class Pools {
 public:
  explicit Pools(std::int32_t blocks, Duration delay = Duration{0})
      : pools(MixedPoolConfig{10}, 2, std::vector<std::int32_t>(4, blocks), 1, delay) {}

  ReplicaPair Choose(std::int32_t prompt_tokens, std::int32_t output_tokens) {
    return pools.Choose(kTimeZero, Asking(next_++, prompt_tokens, output_tokens));
  }

  MixedPools pools;

 private:
  std::uint32_t next_ = 0;
};

using Place = MixedPools::Place;

// Requests of 6 + 4 tokens. The third finds 6 + 6 > 10 tokens at the first prompt replica, where a
// prompt waits. Token replica 2 has room for its output, and of the token pool the fewest pending
// tokens, so that it moves and does both phases.
TEST(MixedPoolsTest, Rule1ALongQueueSendsPromptsToTheTokenPool) {
  Pools p(100);
  EXPECT_EQ(p.Choose(6, 4), (ReplicaPair{0, 2}));
  EXPECT_EQ(p.Choose(6, 4), (ReplicaPair{1, 3}));
  EXPECT_EQ(p.Choose(6, 4), (ReplicaPair{2, 2}));
  EXPECT_EQ(p.pools.place(2), Place::kMixed);
  EXPECT_EQ(p.pools.place(3), Place::kToken);
}

// The mixed replica 2 has 1 + 1 + 2 pending tokens: 6 more are no long queue, and the prompt goes
// there before another replica of the token pool moves. Decoding goes to replica 3, whose reserved
// memory is 10 against 10 + 6.
TEST(MixedPoolsTest, Rule1TheMixedPoolIsAskedBeforeAnotherReplicaMoves) {
  Pools p(100);
  p.Choose(9, 1);
  p.Choose(9, 1);
  EXPECT_EQ(p.Choose(2, 4), (ReplicaPair{2, 2}));
  EXPECT_EQ(p.Choose(6, 4), (ReplicaPair{2, 3}));
  EXPECT_EQ(p.pools.place(3), Place::kToken);
}

// The prompt of 9 tokens has begun: nobody waits behind it yet.
TEST(MixedPoolsTest, Rule1ALargePromptAloneIsNoQueue) {
  Pools p(100);
  p.Choose(9, 4);
  p.Choose(9, 4);
  p.pools.OnPromptBegun(kTimeZero, RequestId{0});
  EXPECT_EQ(p.Choose(9, 4), (ReplicaPair{0, 2}));
}

// Two requests fill both token replicas of 10 blocks. The fourth decodes at the prompt replica with
// the least reserved memory: 5 + 6 blocks against 5.
TEST(MixedPoolsTest, Rule2AFullTokenPoolDecodesInThePromptPool) {
  Pools p(10);
  EXPECT_EQ(p.Choose(5, 5), (ReplicaPair{0, 2}));
  EXPECT_EQ(p.Choose(5, 5), (ReplicaPair{1, 3}));
  EXPECT_EQ(p.Choose(5, 1), (ReplicaPair{0, 0}));  // one token: nothing to decode
  EXPECT_EQ(p.Choose(1, 2), (ReplicaPair{1, 1}));
  EXPECT_EQ(p.pools.place(1), Place::kMixed);
}

// A request may fill the replica, and the next one does not fit.
TEST(MixedPoolsTest, Rule2ARequestFitsThatLeavesNothing) {
  Pools p(10);
  EXPECT_EQ(p.Choose(6, 4).decode, 2);
  EXPECT_EQ(p.Choose(6, 4).decode, 3);
}

// After Rule1..., the fourth request moves replica 3, too. The fifth finds long queues at 0 and 2,
// and no token pool: one replica of all does it, that with the fewest pending tokens: 6, 6, 8, 8.
TEST(MixedPoolsTest, Rule3WhereNobodyIsLeftOneReplicaDoesAll) {
  Pools p(100);
  p.Choose(6, 4);
  p.Choose(6, 4);
  EXPECT_EQ(p.Choose(6, 4), (ReplicaPair{2, 2}));
  EXPECT_EQ(p.Choose(6, 4), (ReplicaPair{3, 3}));
  EXPECT_EQ(p.Choose(6, 4), (ReplicaPair{0, 0}));
}

// Replica 2 prefills request 2 and goes home when that is done, although it decodes on.
TEST(MixedPoolsTest, AReplicaGoesHomeWhenItsForeignWorkIsDone) {
  Pools p(100);
  for (int i = 0; i < 3; ++i) p.Choose(6, 4);
  p.pools.OnPromptBegun(kTimeZero, RequestId{2});
  p.pools.OnPromptComputed(kTimeZero, RequestId{2});
  p.pools.OnPromptComputed(kTimeZero, RequestId{0});
  p.Choose(1, 1);
  EXPECT_EQ(p.pools.place(2), Place::kToken);
}

// Request 0 has left, which is known 5 ns later.
TEST(MixedPoolsTest, NewsTakeTheirTime) {
  Pools p(100, Duration{5});
  p.Choose(6, 4);
  p.pools.OnLeft(kTimeZero, RequestId{0});
  EXPECT_EQ(p.pools.Choose(kTimeZero + Duration{4}, Asking(1, 6, 4)), (ReplicaPair{1, 3}));
  EXPECT_EQ(p.pools.Choose(kTimeZero + Duration{5}, Asking(2, 6, 4)), (ReplicaPair{0, 2}));
}

// Machines behind Splitwise's cluster-level scheduler, in blocks of one token; half of them are at
// home in the prompt pool.
DrivenCluster Machines(std::int32_t count, std::int32_t blocks, std::int32_t max_pending) {
  const std::vector<KvPoolConfig> pools(static_cast<std::size_t>(count),
                                        {.block_size = 1, .blocks = blocks});
  const std::vector<std::int32_t> all(pools.size(), blocks);
  return DrivenCluster(std::make_unique<Cluster>(
      EnginesOf(Config(100), pools),
      MixedPools(MixedPoolConfig{max_pending}, count / 2, all, 1, Duration{0})));
}

// Rule 4. The decoding machine takes the blocks of prompt and output before the transfer.
TEST(SplitwiseClusterTest, Rule4ARequestOfTwoMachinesIsTransferred) {
  DrivenCluster machines = Machines(2, 20, 100);
  machines.Arrive(8, 4);
  EXPECT_EQ(machines.Batch(0), Requests{0});
  machines.EndStep(0);
  EXPECT_EQ(machines.fetched(), Requests{0});
  EXPECT_EQ(machines.FreeBlocks(0), 12);
  EXPECT_EQ(machines.FreeBlocks(1), 8);
  machines.EndTransfer(0, 0, 1);
  EXPECT_EQ(machines.FreeBlocks(0), 20);
  EXPECT_EQ(machines.Batch(1), Requests{0});
  machines.EndStep(1, {0});
  machines.cluster().CheckDrained();
}

// Request 1 finds a long queue at machine 0, does both phases at machine 1, and nothing is copied.
TEST(SplitwiseClusterTest, Rule4ARequestOfOneMachineIsNotTransferred) {
  DrivenCluster machines = Machines(2, 40, 10);
  machines.ArriveTogether({{8, 4}, {8, 4}});
  EXPECT_EQ(machines.Batch(0), Requests{0});
  EXPECT_EQ(machines.Batch(1), Requests{1});
  machines.EndStep(1);
  EXPECT_EQ(machines.fetched(), Requests{});
  EXPECT_EQ(machines.Batch(1), Requests{1});
  machines.EndStep(1, {1});
  machines.EndStep(0, {0});
  machines.cluster().CheckDrained();
}

// 12 blocks each. Request 0 goes from machine 0 to 1; request 1 finds the queue of 0 long and the
// memory of 1 promised, and goes from 1 to 0. Once both prompts are computed, each machine keeps 8
// blocks that the other one cannot fetch for want of 12. Machine 0 then computes request 1 again,
// machine 1 has its blocks back, and fetches request 0.
TEST(SplitwiseClusterTest, MachinesThatWaitForEachOtherComputeAPromptAgain) {
  DrivenCluster machines = Machines(2, 12, 8);
  machines.ArriveTogether({{8, 4}, {8, 4}});
  EXPECT_EQ(machines.Batch(0), Requests{0});
  EXPECT_EQ(machines.Batch(1), Requests{1});
  machines.EndStep(0);
  EXPECT_EQ(machines.fetched(), Requests{});
  machines.EndStep(1);
  EXPECT_EQ(machines.fetched(), Requests{0});
  EXPECT_EQ(machines.Batch(0), Requests{});
  machines.EndTransfer(0, 0, 1);
  EXPECT_EQ(machines.Batch(0), Requests{1});
  EXPECT_EQ(machines.Batch(1), Requests{0});
  machines.EndStep(0, {1});
  machines.EndStep(1, {0});
  machines.cluster().CheckDrained();
}

// Request 0 leaves 2 of 20 blocks, and request 1, computed elsewhere, needs 8. Requests 2 and 3, of
// one token each, join steps 2 and 3; in step 4, when two steps have left out request 1, request 4
// must leave the memory to it.
TEST(SplitwiseEngineTest, AnAgedTransferComesBeforePrompts) {
  EngineConfig config;
  config.kv = {.block_size = 1, .blocks = 20};
  Engine engine(config, MakePolicy(Config(100), config.kv));
  TimePoint now = kTimeZero;
  engine.Receive(Asking(0, 8, 10), {.request = RequestId{0}, .known = 9, .tokens = 8, .keys = {}});
  EXPECT_EQ(engine.PlanStep(now), nullptr);
  engine.Handle(TransferFinished{RequestId{0}, 1, 0, now});
  const StepPlan* plan = engine.PlanStep(now);
  engine.Receive(Asking(1, 4, 4), {.request = RequestId{1}, .known = 5, .tokens = 4, .keys = {}});
  for (std::uint32_t id = 2; id <= 4; ++id) {
    now += Duration{1};
    std::vector<ItemOutcome> ended;
    for (const WorkItem& item : plan->work) {
      if (Index(item.request) > 0) ended.push_back({item.request, 1, FinishReason::kLength});
    }
    engine.Handle(StepFinished{plan->id, now, ended, {}});
    engine.Handle(RequestArrived{Asking(id, 1, 1)});
    plan = engine.PlanStep(now);
    ASSERT_NE(plan, nullptr);
    EXPECT_EQ(Index(plan->id), id);
    EXPECT_EQ(plan->work.size(), id < 4 ? 2u : 1u);
    EXPECT_EQ(plan->work.back().request, RequestId{0});
  }
}

}  // namespace
}  // namespace twin::testing
