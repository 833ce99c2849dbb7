// Replicas of one model behind a router, served at the same time on the machine's clock. No
// expectation depends on how long anything takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "exec/cpu/cpu_model.h"
#include "exec/generation.h"
#include "sched/cluster.h"
#include "tests/unit/exec/real_run.h"

namespace twin::exec {
namespace {

using testing::GatedBackend;
using testing::kPositions;
using testing::kVocab;
using ::testing::SizeIs;
using testing::Watcher;
using twin::testing::Asked;
using twin::testing::ListedSource;

constexpr KvPoolConfig kTight{.block_size = 4, .blocks = 26, .host_blocks = 60};
constexpr std::int32_t kReplicas = 2;

// Keeps which replica admitted each request, and which worked on it.
class Places final : public RunObserver {
 public:
  void OnInstant(const Instant& instant) override {
    std::int32_t last = -1;
    for (const Event& event : instant.events) {
      const auto* finished = std::get_if<StepFinished>(&event);
      if (finished == nullptr) continue;
      EXPECT_GE(finished->replica, last);  // replica by replica
      last = finished->replica;
      EXPECT_EQ(Index(finished->step), ++ended[finished->replica]);
    }
  }
  void OnPlan(TimePoint /*now*/, const StepPlan& plan) override {
    for (const RequestId id : plan.admitted) admitted[id].insert(plan.replica);
    for (const WorkItem& item : plan.work) worked[item.request].insert(plan.replica);
  }

  std::map<RequestId, std::set<std::int32_t>> admitted;
  std::map<RequestId, std::set<std::int32_t>> worked;
  std::map<std::int32_t, std::uint64_t> ended;  // steps, by replica
};

// Two replicas of a model, each with a pool and a cache of its own.
class ReplicasRun final : public RealWorldListener {
 public:
  ReplicasRun(ArrivalSource& source, std::array<Backend*, kReplicas> backends,
              const PolicyConfig& policy, RouterKind router, RealWorldOptions options = {})
      : policy_(policy), router_(router), cluster_(MakeCluster()) {
    options.max_model_length = kPositions;
    options.vocab = kVocab;
    options.listener = this;
    options.named_block_size = TraitsOf(policy).caches_prefixes ? kTight.block_size : 0;
    world_.emplace(source, backends, options);
  }

  void Serve() {
    RecordingWorld recorded(*world_,
                            std::array<RunObserver*, 4>{&record_, &digest_, &watcher, &places});
    twin::Serve(*cluster_, recorded);
  }

  void OnStep(std::int32_t replica, StepId id, const StepTimes& times) override {
    EXPECT_EQ(Index(id), ++steps[replica]);
    EXPECT_EQ(times.parts.device(), times.finished - times.started);
    EXPECT_EQ(times.parts[StepPart::kSchedule],
              times.started - std::max(times.planned, device_free_[replica]));
    device_free_[replica] = times.finished;
  }
  void OnToken(RequestId id, std::int32_t token) override { outputs[id].push_back(token); }

  [[nodiscard]] std::string ReplayDifference() const {
    const std::unique_ptr<Cluster> cluster = MakeCluster();
    RecordedRunSource source(record_);
    ReplayWorld replay(source);
    PlanDigest digest;
    RecordingWorld recorded(replay, std::array<RunObserver*, 1>{&digest});
    twin::Serve(*cluster, recorded);
    if (replay.difference()) return replay.difference()->text();
    return digest.value() == digest_.value() ? "" : "digests differ";
  }

  [[nodiscard]] RealWorld& world() { return *world_; }
  [[nodiscard]] Cluster& cluster() { return *cluster_; }

  Watcher watcher;
  Places places;
  std::map<std::int32_t, std::uint64_t> steps;  // by replica
  std::map<RequestId, std::vector<std::int32_t>> outputs;

 private:
  [[nodiscard]] std::unique_ptr<Cluster> MakeCluster() const {
    std::vector<std::unique_ptr<Engine>> engines;
    for (std::int32_t i = 0; i < kReplicas; ++i) {
      EngineConfig config;
      config.kv = kTight;
      config.kv.release_order = TraitsOf(policy_).release_order;
      config.prompt_tokens_max = kPositions;
      config.replica = i;
      engines.push_back(std::make_unique<Engine>(config, MakePolicy(policy_, config.kv)));
    }
    return std::make_unique<Cluster>(
        std::move(engines), MakeRouter({.kind = router_}, kReplicas, kTight.block_size, /*seed=*/1),
        Duration{0});
  }

  PolicyConfig policy_;
  RouterKind router_;
  std::unique_ptr<Cluster> cluster_;
  RecordedRun record_;
  PlanDigest digest_;
  std::map<std::int32_t, TimePoint> device_free_;
  std::optional<RealWorld> world_;  // the last member: it borrows the plans of the cluster
};

// Prompts of 1 to 40 tokens, some of which begin alike.
std::vector<TracedRequest> Requests() {
  const std::int32_t prompts[] = {40, 13, 1, 22, 9, 31, 17, 24, 26, 8, 33, 12};
  std::vector<TracedRequest> requests;
  for (const std::int32_t prompt : prompts) {
    const auto number = static_cast<std::int32_t>(requests.size());
    const TimePoint arrival = kTimeZero + std::chrono::microseconds(number < 5 ? 0 : 80 * number);
    TracedRequest& request = requests.emplace_back(Asked(arrival, prompt, 12 + number));
    if (number % 3 != 0) continue;
    request.prefix_chunk_tokens = 8;
    request.prefix_chunks = {11, 12};
  }
  return requests;
}

class RealReplicasTest : public ::testing::Test {
 protected:
  CpuExecutor MakeBackend(CpuModel& model) {
    return {model,
            {.block_size = kTight.block_size,
             .blocks = kTight.blocks,
             .host_blocks = kTight.host_blocks}};
  }

  // What one replica gives, one request at a time.
  std::vector<std::vector<std::int32_t>> Generated(const std::vector<TracedRequest>& requests) {
    RequestTokens tokens(/*seed=*/0, kVocab);
    std::vector<Generation> generations;
    for (const TracedRequest& request : requests) {
      const RequestId id{static_cast<std::uint32_t>(generations.size())};
      generations.push_back({tokens.Open(id, request), request.max_output_tokens});
    }
    Generate(model_, generations, {.policy = VllmV1Config{.max_num_seqs = 1}});
    std::vector<std::vector<std::int32_t>> outputs;
    for (const Generation& generation : generations) outputs.push_back(generation.output);
    return outputs;
  }

  kernels::ThreadPool pool_{1};
  kernels::ThreadPool other_pool_{2};
  CpuModel model_ = testing::MakeSmallModel(pool_);
  std::unique_ptr<DeviceModel> other_ = model_.WithSameWeights(other_pool_);
  CpuModel& other_model_ = dynamic_cast<CpuModel&>(*other_);
  CpuExecutor first_ = MakeBackend(model_);
  CpuExecutor second_ = MakeBackend(other_model_);
};

struct Routed {
  const char* name;
  RouterKind router;
  PolicyConfig policy;
};

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
  const auto expected = Generated(Requests());
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
