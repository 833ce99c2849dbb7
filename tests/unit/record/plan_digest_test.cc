#include "run/record/plan_digest.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/scripted_run.h"

namespace twin {
namespace {

using testing::Decode;
using testing::Prefill;
using testing::R;

// Every list filled.
StepPlan FullPlan() {
  StepPlan plan;
  plan.id = StepId{3};
  plan.kv = {{KvOperation::Kind::kAllocate, R(1), BlockId{5}, BlockId::kNone},
             {KvOperation::Kind::kSwapOut, R(2), BlockId{6}, BlockId{7}}};
  plan.work = {Prefill(R(1), 0, 7), Decode(R(3), 12)};
  plan.preempted = {{R(2), Preemption::How::kSwap}};
  plan.admitted = {R(1)};
  plan.resumed = {R(3)};
  plan.released = {R(9)};
  plan.padding_rows = {R(8)};
  plan.rejected = {{R(10), RejectReason::kTooLongForModel}};
  plan.hits = {{R(1), 16}};
  return plan;
}

std::uint64_t DigestOf(const std::vector<StepPlan>& plans) {
  PlanDigest digest;
  for (const StepPlan& plan : plans) digest.OnPlan(kTimeZero, plan);
  return digest.value();
}

using Words = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

Words EncodingOf(const StepPlan& plan, PlanEncoder& encoder) {
  Words words;
  encoder.Encode(
      plan, [&](std::uint64_t first, std::uint64_t second) { words.emplace_back(first, second); });
  return words;
}

// The plan that repeats FullPlan().
StepPlan RepeatedPlan() {
  StepPlan plan;
  plan.id = StepId{4};
  plan.kv = {{KvOperation::Kind::kAllocate, R(3), BlockId{9}, BlockId::kNone}};
  plan.work = {Decode(R(1), 7), Decode(R(3), 13)};
  plan.padding_rows = {R(8)};
  return plan;
}

TEST(PlanEncodingTest, WritesTheDocumentedWords) {
  // From the table in plan_encoding.h; 2^32 = 4294967296.
  constexpr std::uint64_t kHigh = std::uint64_t{1} << 32;
  const Words expected = {
      {3, 2 + 2 * kHigh},
      {1 + 1 * kHigh, 1 + 1 * kHigh},
      {1 + 1 * kHigh, 1},
      {1 + 0 * kHigh, 7 + (std::uint64_t{1} << 63)},
      {3 + 12 * kHigh, 1 + (std::uint64_t{1} << 62) + (std::uint64_t{1} << 63)},
      {1 + 0 * kHigh, 5 + 0xFFFFFFFF * kHigh},
      {2 + 3 * kHigh, 6 + 7 * kHigh},
      {2 + 1 * kHigh, 1},
      {1, 2},
      {3, 3},
      {9, 4},
      {8, 5},
      {10 + 0 * kHigh, 6},
      {1 + 16 * kHigh, 7},
  };
  PlanEncoder encoder;
  EXPECT_EQ(EncodingOf(FullPlan(), encoder), expected);
  const Words repeated = {
      {4, 0xFFFFFFFF + 1 * kHigh},
      {3 + 0 * kHigh, 9 + 0xFFFFFFFF * kHigh},
  };
  EXPECT_EQ(EncodingOf(RepeatedPlan(), encoder), repeated);
}

// Whoever made the plan: it need not say that it repeats another one.
TEST(PlanEncodingTest, WritesAPlanAsARepetitionOnlyIfAllOfItRepeatsTheOneBefore) {
  const std::vector<std::function<void(StepPlan&)>> changes = {
      [](StepPlan& p) { ++p.work[0].start; },
      [](StepPlan& p) { p.work[0].request = R(2); },
      [](StepPlan& p) { p.work[1].tokens = 2; },
      [](StepPlan& p) { p.work[1].emits = false; },
      [](StepPlan& p) { p.work.pop_back(); },
      [](StepPlan& p) { std::swap(p.work[0], p.work[1]); },
      [](StepPlan& p) { p.padding_rows.clear(); },
      [](StepPlan& p) { p.admitted = {R(3)}; },
      [](StepPlan& p) {
        p.preempted = {{R(2), Preemption::How::kRecompute}};
      },
      [](StepPlan& p) { p.resumed = {R(3)}; },
      [](StepPlan& p) { p.released = {R(9)}; },
      [](StepPlan& p) {
        p.rejected = {{R(10), RejectReason::kTooLongForModel}};
      },
      [](StepPlan& p) {
        p.hits = {{R(1), 16}};
      },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    StepPlan plan = RepeatedPlan();
    changes[i](plan);
    PlanEncoder encoder;
    (void)EncodingOf(FullPlan(), encoder);
    EXPECT_EQ(EncodingOf(plan, encoder)[0].second % (std::uint64_t{1} << 32), plan.work.size())
        << "change " << i;
  }
}

TEST(PlanDigestTest, IsThatOfTheSinglePlansForAStreakInOnePiece) {
  StepPlan third = RepeatedPlan();
  third.id = StepId{5};
  third.kv.clear();
  for (WorkItem& item : third.work) ++item.start;
  StepPlan fourth = third;
  fourth.id = StepId{6};
  for (WorkItem& item : fourth.work) ++item.start;
  StreakPart part;
  part.first_launched = StepId{4};
  part.moments = {{.kv_end = 1}, {.kv_end = 1}};
  part.kv = RepeatedPlan().kv;
  PlanDigest digest;
  digest.OnPlan(kTimeZero, FullPlan());
  digest.OnStreak(part);
  digest.OnPlan(kTimeZero, fourth);
  EXPECT_EQ(digest.value(), DigestOf({FullPlan(), RepeatedPlan(), third, fourth}));
  EXPECT_EQ(digest.plans(), 4u);
}

TEST(PlanDigestTest, ChangesWithEveryFieldOfADecision) {
  const std::vector<std::function<void(StepPlan&)>> changes = {
      [](StepPlan& p) { p.id = StepId{4}; },
      [](StepPlan& p) { p.kv[0].kind = KvOperation::Kind::kAttach; },
      [](StepPlan& p) { p.kv[0].request = R(2); },
      [](StepPlan& p) { p.kv[0].block = BlockId{6}; },
      [](StepPlan& p) { p.kv[1].other = BlockId{8}; },
      [](StepPlan& p) { p.kv.pop_back(); },
      [](StepPlan& p) { std::swap(p.kv[0], p.kv[1]); },
      [](StepPlan& p) { p.work[0].request = R(2); },
      [](StepPlan& p) { p.work[0].start = 1; },
      [](StepPlan& p) { p.work[0].tokens = 8; },
      [](StepPlan& p) { p.work[0].padded_tokens = 10; },
      [](StepPlan& p) { p.work[0].phase = Phase::kDecode; },
      [](StepPlan& p) { p.work[0].emits = false; },
      [](StepPlan& p) { p.work.pop_back(); },
      [](StepPlan& p) { std::swap(p.work[0], p.work[1]); },
      [](StepPlan& p) { p.preempted[0].request = R(3); },
      [](StepPlan& p) { p.preempted[0].how = Preemption::How::kRecompute; },
      [](StepPlan& p) { p.preempted.clear(); },
      [](StepPlan& p) { p.admitted[0] = R(2); },
      [](StepPlan& p) { p.admitted.clear(); },
      [](StepPlan& p) { p.resumed[0] = R(2); },
      [](StepPlan& p) { p.resumed.clear(); },
      [](StepPlan& p) { std::swap(p.admitted, p.resumed); },
      [](StepPlan& p) { p.released[0] = R(2); },
      [](StepPlan& p) { p.released.clear(); },
      [](StepPlan& p) { p.padding_rows[0] = R(2); },
      [](StepPlan& p) { p.padding_rows.clear(); },
      [](StepPlan& p) { p.rejected[0].request = R(11); },
      [](StepPlan& p) { p.rejected[0].reason = RejectReason::kTooLargeForCache; },
      [](StepPlan& p) { p.rejected.clear(); },
      [](StepPlan& p) { p.hits[0].tokens = 32; },
      [](StepPlan& p) { p.hits[0].request = R(2); },
      [](StepPlan& p) { p.hits.clear(); },
  };
  std::set<std::uint64_t> seen = {DigestOf({FullPlan()})};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    StepPlan plan = FullPlan();
    changes[i](plan);
    EXPECT_TRUE(seen.insert(DigestOf({plan})).second) << "change " << i;
  }
}

TEST(PlanDigestTest, LeavesOutWhatFollowsFromTheDecisions) {
  StepPlan plan = FullPlan();
  plan.totals.prefill_tokens = 99;
  plan.free_blocks_before = 1;
  plan.free_blocks = 2;
  plan.free_host_blocks = 3;
  plan.waiting = plan.running = plan.swapped = 4;
  EXPECT_EQ(DigestOf({plan}), DigestOf({FullPlan()}));
}

TEST(PlanDigestTest, DoesNotDependOnTimes) {
  PlanDigest early;
  PlanDigest late;
  early.OnPlan(testing::At(1), FullPlan());
  late.OnPlan(testing::At(2), FullPlan());
  EXPECT_EQ(early.value(), late.value());
}

TEST(PlanDigestTest, DependsOnTheNumberAndOrderOfPlans) {
  StepPlan other = FullPlan();
  other.id = StepId{4};
  const std::set<std::uint64_t> digests = {
      DigestOf({}),
      DigestOf({FullPlan()}),
      DigestOf({FullPlan(), FullPlan()}),
      DigestOf({FullPlan(), other}),
      DigestOf({other, FullPlan()}),
  };
  EXPECT_EQ(digests.size(), 5u);
}

StepPlan PlanOf(std::int32_t replica, std::uint64_t id) {
  StepPlan plan = FullPlan();
  plan.replica = replica;
  plan.id = StepId{id};
  return plan;
}

// When one plans in relation to another follows from the events.
TEST(PlanDigestTest, DoesNotDependOnTheOrderOfReplicas) {
  const std::uint64_t expected = DigestOf({PlanOf(0, 1), PlanOf(0, 2), PlanOf(3, 1)});
  EXPECT_EQ(DigestOf({PlanOf(0, 1), PlanOf(3, 1), PlanOf(0, 2)}), expected);
  EXPECT_EQ(DigestOf({PlanOf(3, 1), PlanOf(0, 1), PlanOf(0, 2)}), expected);
  EXPECT_NE(DigestOf({PlanOf(3, 1), PlanOf(0, 2), PlanOf(0, 1)}), expected);
  EXPECT_NE(DigestOf({PlanOf(2, 1), PlanOf(0, 1), PlanOf(0, 2)}), expected);
  EXPECT_NE(DigestOf({PlanOf(0, 1), PlanOf(0, 2)}), expected);
}

TEST(PlanDigestTest, CountsReplicasOnlyOnceTheyPlan) {
  PlanDigest known(/*replicas=*/5);
  known.OnPlan(kTimeZero, PlanOf(1, 1));
  EXPECT_EQ(known.value(), DigestOf({PlanOf(1, 1)}));
}

TEST(PlanDigestTest, CoversTransfers) {
  const BlockId source[] = {BlockId{4}};
  const BlockId target[] = {BlockId{6}};
  const KvTransfer transfer{.request = R(1),
                            .from = 0,
                            .to = 1,
                            .start = 0,
                            .tokens = 9,
                            .source = source,
                            .target = target,
                            .computed = kTimeZero};
  PlanDigest without;
  PlanDigest with;
  with.OnTransfer(kTimeZero, transfer);
  EXPECT_NE(with.value(), without.value());
}

TEST(PlanDigestTest, StaysTheSameForever) {
  // Computed with Python's integers from the words above and the definition in plan_digest.h. If it
  // changes, the digests of old records no longer prove anything: count up the encoding's version.
  PlanDigest digest;
  EXPECT_EQ(digest.text(), "ff70e31bf8d31e61");
  digest.OnPlan(kTimeZero, FullPlan());
  EXPECT_EQ(digest.text(), "8d0e7af4e0e983b4");
  EXPECT_EQ(digest.plans(), 1u);
  digest.OnPlan(kTimeZero, PlanOf(2, 3));
  EXPECT_EQ(digest.text(), "68e7085286f788c7");
  EXPECT_EQ(digest.plans(), 2u);
  StepPlan repeated = RepeatedPlan();
  repeated.replica = 2;
  digest.OnPlan(kTimeZero, repeated);
  EXPECT_EQ(digest.text(), "6e6a77ce7d8568f9");
}

}  // namespace
}  // namespace twin
