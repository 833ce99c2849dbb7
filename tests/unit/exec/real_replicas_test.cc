// Replicas of one model behind a router, served at the same time on the machine's clock. No
// expectation depends on how long anything takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "sched/policy/registry.h"
#include "tests/unit/exec/replicas_run.h"

namespace twin::exec {
namespace {

using testing::GatedBackend;
using testing::Generated;
using testing::MakeTightExecutor;
using testing::ReplicasRun;
using testing::Requests;
using ::testing::SizeIs;
using twin::testing::Asked;
using twin::testing::ListedSource;

class RealReplicasTest : public ::testing::Test {
 protected:
  kernels::ThreadPool pool_{1};
  kernels::ThreadPool other_pool_{2};
  CpuModel model_ = testing::MakeSmallModel(pool_);
  std::unique_ptr<DeviceModel> other_ = model_.WithSameWeights(other_pool_);
  CpuModel& other_model_ = dynamic_cast<CpuModel&>(*other_);
  CpuExecutor first_ = MakeTightExecutor(model_);
  CpuExecutor second_ = MakeTightExecutor(other_model_);
};

struct Routed {
  const char* name;
  RouterKind router;
  PolicyConfig policy;
};

void PrintTo(const Routed& routed, std::ostream* out) { *out << routed.name; }

const VllmV1Config kCaching{.max_num_batched_tokens = 64,
                            .enable_prefix_caching = true,
                            .async_scheduling = true,
                            .scheduler_reserve_full_isl = false};
const Routed kRouted[] = {
    {"RoundRobin", RouterKind::kRoundRobin, VllmV1Config{.max_num_seqs = 4}},
    {"LeastRequests", RouterKind::kLeastRequests, kCaching},
    {"LeastTokens", RouterKind::kLeastTokens, SarathiConfig{.max_model_len = 100}},
    {"LeastKvSwapping", RouterKind::kLeastKv,
     VllmV0Config{.preemption_mode = VllmV0Config::PreemptionMode::kSwap}},
    {"SessionHash", RouterKind::kSessionHash, StaticConfig{.max_batch_size = 3}},
    {"PrefixAffinity", RouterKind::kPrefixAffinity, kCaching},
    // Admits out of the order of arrival.
    {"ShortestFirst", RouterKind::kPowerOfTwo,
     VllmV1Config{.max_num_seqs = 2, .order = OrderConfig{.kind = OrderConfig::Kind::kSjf}}}};

class EveryRouterTest : public RealReplicasTest, public ::testing::WithParamInterface<Routed> {};

TEST_P(EveryRouterTest, GivesTheTokensOfOneReplicaAndReplaysToTheSamePlans) {
  ListedSource source(Requests());
  ReplicasRun run(source, {&first_, &second_}, GetParam().policy, GetParam().router);
  run.Serve();
  run.cluster().CheckDrained();
  EXPECT_EQ(run.ReplayDifference(), "");
  const auto expected = Generated(model_, Requests());
  for (std::uint32_t i = 0; i < expected.size(); ++i) {
    const RequestId id{i};
    EXPECT_EQ(run.outputs[id], expected[i]) << "request " << i;
    EXPECT_THAT(run.places.admitted[id], SizeIs(1));
    EXPECT_EQ(run.places.worked[id], run.places.admitted[id]);
    if (GetParam().router == RouterKind::kRoundRobin) {
      EXPECT_EQ(run.places.worked[id], std::set<std::int32_t>{static_cast<std::int32_t>(i % 2)});
    }
  }
  EXPECT_THAT(source.done, SizeIs(expected.size()));
  EXPECT_EQ(run.places.ended, run.steps);
  EXPECT_FALSE(run.world().stopped_early());
}

INSTANTIATE_TEST_SUITE_P(RealReplicasTest, EveryRouterTest, ::testing::ValuesIn(kRouted),
                         [](const auto& routed) { return std::string(routed.param.name); });

// One replica computes while the other waits behind a gate that only the first one opens.
TEST_F(RealReplicasTest, OneComputesWhileTheOtherIsHeldUp) {
  GatedBackend held(second_);
  held.SetOpen(false);
  ListedSource source(Requests());
  ReplicasRun run(source, {&first_, &held}, VllmV1Config{}, RouterKind::kRoundRobin);
  run.watcher.on_instant = [&](const Instant& /*instant*/) {
    if (source.done.size() == 6) held.SetOpen(true);
  };
  run.Serve();
  run.cluster().CheckDrained();
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(Index(source.done[i].first) % 2, 0U);
  EXPECT_EQ(run.ReplayDifference(), "");
}

TEST_F(RealReplicasTest, StopEndsTheRunBehindTheStepsOfBoth) {
  GatedBackend held(second_);
  held.SetOpen(false);
  std::vector<TracedRequest> requests = Requests();
  requests.push_back(Asked(kTimeZero + std::chrono::hours(1), 5, 5));
  ListedSource source(requests);
  ReplicasRun run(source, {&first_, &held}, VllmV1Config{}, RouterKind::kRoundRobin);
  run.watcher.on_instant = [&](const Instant& /*instant*/) {
    if (run.steps[0] != 4) return;
    run.world().Stop();
    held.SetOpen(true);
  };
  run.Serve();
  EXPECT_TRUE(run.world().stopped_early());
  EXPECT_EQ(run.steps[1], 1U);
  EXPECT_LE(run.steps[0], 5U);
  EXPECT_EQ(run.ReplayDifference(), "");
}

TEST_F(RealReplicasTest, CancelledRequestsLeaveTheirReplicaOrTheQueue) {
  GatedBackend held(second_);
  held.SetOpen(false);
  ListedSource source(Requests());
  // One at a time: request 1 is in the step that is held up, request 3 waits behind it.
  ReplicasRun run(source, {&first_, &held}, VllmV1Config{.max_num_seqs = 1},
                  RouterKind::kRoundRobin);
  bool asked = false;
  run.watcher.on_instant = [&](const Instant& /*instant*/) {
    if (!asked && run.steps[0] > 0) {
      asked = true;
      run.world().Cancel(RequestId{1});
      run.world().Cancel(RequestId{3});
    }
    if (run.watcher.cancelled.size() == 2) held.SetOpen(true);
  };
  run.Serve();
  run.cluster().CheckDrained();
  EXPECT_THAT(run.watcher.cancelled, ::testing::ElementsAre(RequestId{1}, RequestId{3}));
  EXPECT_THAT(run.places.admitted[RequestId{3}], SizeIs(0));
  EXPECT_THAT(source.done, SizeIs(12));
  EXPECT_EQ(run.ReplayDifference(), "");
}

class FailingBackend final : public Backend {
 public:
  void Open(RequestId, std::span<const std::int32_t>, const kernels::SamplingParameters&) override {
  }
  void Close(RequestId) override {}
  void Launch(const StepPlan&) override {}
  ComputedStep Collect() override { throw std::bad_alloc(); }
};

TEST_F(RealReplicasTest, WhatOneThrowsEndsTheRun) {
  FailingBackend failing;
  ListedSource source(Requests());
  ReplicasRun run(source, {&first_, &failing}, VllmV1Config{}, RouterKind::kRoundRobin);
  EXPECT_THROW(run.Serve(), std::bad_alloc);
  EXPECT_THROW(run.world().Advance(kTimeNever), std::bad_alloc);
}

}  // namespace
}  // namespace twin::exec
