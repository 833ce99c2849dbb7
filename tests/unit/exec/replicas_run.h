// Replicas of a small model behind a router in the real world, with everything that happens kept
// for a test to look at.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exec/cpu/cpu_model.h"
#include "exec/generation.h"
#include "sched/cluster.h"
#include "sched/policy/policy_config.h"
#include "sched/policy/vllm_v1.h"
#include "tests/unit/exec/real_run.h"

namespace twin::exec::testing {

inline constexpr KvPoolConfig kTight{.block_size = 4, .blocks = 26, .host_blocks = 60};

inline CpuExecutor MakeTightExecutor(CpuModel& model) {
  return {model,
          {.block_size = kTight.block_size,
           .blocks = kTight.blocks,
           .host_blocks = kTight.host_blocks}};
}

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
  void OnTransfer(TimePoint /*now*/, const KvTransfer& transfer) override {
    ++transfers;
    copied_tokens += transfer.copied_tokens();
  }
  void OnPlan(TimePoint /*now*/, const StepPlan& plan) override {
    for (const RequestId id : plan.admitted) admitted[id].insert(plan.replica);
    for (const WorkItem& item : plan.work) worked[item.request].insert(plan.replica);
  }

  std::map<RequestId, std::set<std::int32_t>> admitted;
  std::map<RequestId, std::set<std::int32_t>> worked;
  std::map<std::int32_t, std::uint64_t> ended;  // steps, by replica
  std::int64_t transfers = 0;
  std::int64_t copied_tokens = 0;
};

// Replicas of a model, each with a pool and a cache of its own. Of `prefill_replicas`, the first
// ones prefill and the others decode, or with a mixed pool are at home where they do.
class ReplicasRun final : public RealWorldListener {
 public:
  ReplicasRun(ArrivalSource& source, std::vector<Backend*> backends, const PolicyConfig& policy,
              RouterKind router, RealWorldOptions options = {},
              std::optional<MixedPoolConfig> mixed_pool = {})
      : policy_(policy),
        router_(router),
        replicas_(static_cast<std::int32_t>(backends.size())),
        prefill_replicas_(options.prefill_replicas),
        mixed_pool_(mixed_pool),
        cluster_(MakeCluster()) {
    options.max_model_length = kPositions;
    options.vocab = kVocab;
    options.listener = this;
    options.named_block_size = TraitsOf(policy).caches_prefixes ? kTight.block_size : 0;
    world_.emplace(source, backends, options);
  }

  void Serve(const std::vector<RunObserver*>& further = {}) {
    std::vector<RunObserver*> observers = {&record_, &digest_, &watcher, &places};
    observers.insert(observers.end(), further.begin(), further.end());
    RecordingWorld recorded(*world_, observers);
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
    for (std::int32_t i = 0; i < replicas_; ++i) {
      EngineConfig config;
      config.kv = kTight;
      config.kv.release_order = TraitsOf(policy_).release_order;
      config.prompt_tokens_max = kPositions;
      config.replica = i;
      engines.push_back(std::make_unique<Engine>(config, MakePolicy(policy_, config.kv)));
    }
    if (mixed_pool_) {
      const std::vector<std::int32_t> blocks(static_cast<std::size_t>(replicas_), kTight.blocks);
      return std::make_unique<Cluster>(
          std::move(engines), MixedPools(*mixed_pool_, prefill_replicas_, blocks, kTight.block_size,
                                         /*delay=*/Duration{0}));
    }
    std::vector<ReplicaPool> pools;
    const auto add = [&](std::int32_t replicas) {
      const RouterConfig router{.kind = router_};
      pools.push_back(
          {.replicas = replicas,
           .router = MakeRouter(router, replicas, kTight.block_size, /*seed=*/pools.size())});
    };
    if (prefill_replicas_ > 0) add(prefill_replicas_);
    add(replicas_ - prefill_replicas_);
    return std::make_unique<Cluster>(std::move(engines), std::move(pools));
  }

  PolicyConfig policy_;
  RouterKind router_;
  std::int32_t replicas_;
  std::int32_t prefill_replicas_;
  std::optional<MixedPoolConfig> mixed_pool_;
  std::unique_ptr<Cluster> cluster_;
  RecordedRun record_;
  PlanDigest digest_;
  std::map<std::int32_t, TimePoint> device_free_;
  std::optional<RealWorld> world_;  // the last member: it borrows the plans of the cluster
};

// Prompts of 1 to 40 tokens, some of which begin alike.
inline std::vector<TracedRequest> Requests() {
  const std::int32_t prompts[] = {40, 13, 1, 22, 9, 31, 17, 24, 26, 8, 33, 12};
  std::vector<TracedRequest> requests;
  for (const std::int32_t prompt : prompts) {
    const auto number = static_cast<std::int32_t>(requests.size());
    const TimePoint arrival = kTimeZero + std::chrono::microseconds(number < 5 ? 0 : 80 * number);
    TracedRequest& request =
        requests.emplace_back(twin::testing::Asked(arrival, prompt, 12 + number));
    if (number % 3 != 0) continue;
    request.prefix_chunk_tokens = 8;
    request.prefix_chunks = {11, 12};
  }
  return requests;
}

// What one replica gives, one request at a time.
inline std::vector<std::vector<std::int32_t>> Generated(
    CpuModel& model, const std::vector<TracedRequest>& requests) {
  RequestTokens tokens(/*seed=*/0, kVocab);
  std::vector<Generation> generations;
  for (const TracedRequest& request : requests) {
    const RequestId id{static_cast<std::uint32_t>(generations.size())};
    generations.push_back({tokens.Open(id, request), request.max_output_tokens});
  }
  Generate(model, generations, {.policy = VllmV1Config{.max_num_seqs = 1}});
  std::vector<std::vector<std::int32_t>> outputs;
  for (const Generation& generation : generations) outputs.push_back(generation.output);
  return outputs;
}

}  // namespace twin::exec::testing
