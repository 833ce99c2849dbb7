// A small model served in the real world, with everything that happens kept for a test to look at.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/cpu/cpu_executor.h"
#include "exec/forwarding_backend.h"
#include "exec/real_world.h"
#include "run/record/plan_digest.h"
#include "run/record/recorded_run.h"
#include "run/record/recording_world.h"
#include "run/record/replay_world.h"
#include "sched/engine.h"
#include "sched/policy/registry.h"
#include "sched/serve.h"
#include "tests/support/listed_source.h"
#include "tests/unit/exec/model_folder.h"

namespace twin::exec::testing {

inline constexpr std::int32_t kVocab = 29;  // of the small model
inline constexpr std::int32_t kPositions = 100;

inline CpuModel MakeSmallModel(kernels::ThreadPool& pool, DType format = DType::kFp32) {
  const ModelConfig config = ParseModelConfig(kLlamaConfig, "config.json");
  const ModelFolder folder("real_world");
  folder.WriteWeights(RandomTensors(config, "model."));
  return {config, LoadWeights(folder.path(), config, format, pool).weights, kPositions, pool};
}

// Passes on to another backend, but computes no step while the gate is shut.
class GatedBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  ComputedStep Collect() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
    return ForwardingBackend::Collect();
  }

  void SetOpen(bool open) {
    {
      const std::lock_guard lock(mutex_);
      open_ = open;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
};

// Calls a test at every instant, before the engine hears of it, and at every plan.
class Watcher final : public RunObserver {
 public:
  void OnInstant(const Instant& instant) override {
    for (const Event& event : instant.events) {
      if (const auto* gone = std::get_if<RequestCancelled>(&event)) {
        cancelled.push_back(gone->request);
      }
      if (std::holds_alternative<RequestArrived>(event)) ++arrived;
    }
    if (on_instant) on_instant(instant);
  }
  void OnPlan(TimePoint /*now*/, const StepPlan& plan) override {
    preemptions += plan.preempted.size();
    for (const PrefixHit& hit : plan.hits) cached_tokens += hit.tokens;
    for (const Rejection& rejection : plan.rejected) rejected.push_back(rejection.request);
    if (on_plan) on_plan(plan);
  }

  std::function<void(const Instant&)> on_instant;
  std::function<void(const StepPlan&)> on_plan;
  std::vector<RequestId> cancelled;
  std::vector<RequestId> rejected;
  std::size_t arrived = 0;
  std::size_t preemptions = 0;
  std::int64_t cached_tokens = 0;
};

class RealRun final : public RealWorldListener {
 public:
  RealRun(ArrivalSource& source, Backend& backend, const PolicyConfig& policy,
          const KvPoolConfig& kv, RealWorldOptions options)
      : policy_(policy), engine_(ConfigOf(policy, kv, options), MakePolicy(policy, kv)) {
    const PolicyTraits& traits = engine_.policy().traits();
    config_ = ConfigOf(policy, kv, options);
    options.vocab = kVocab;
    options.listener = this;
    options.named_block_size = traits.caches_prefixes ? kv.block_size : 0;
    world_.emplace(source, backend, options);
  }

  // Throws what the world throws.
  void Serve() {
    RecordingWorld recorded(*world_, std::array<RunObserver*, 3>{&record_, &digest_, &watcher});
    twin::Serve(engine_, recorded);
  }

  void OnStep(std::int32_t /*replica*/, StepId id, const StepTimes& times) override {
    EXPECT_EQ(Index(id), steps.size() + 1);
    steps.push_back(times);
  }
  void OnToken(RequestId id, std::int32_t token) override { outputs[id].push_back(token); }
  void OnLogprobs(RequestId id, std::span<const kernels::TokenLogprob> logprobs) override {
    told_logprobs[id].emplace_back(logprobs.begin(), logprobs.end());
  }

  // The first difference of a replay by a fresh engine; empty if it decides the same.
  [[nodiscard]] std::string ReplayDifference() const {
    Engine engine(config_, MakePolicy(policy_, config_.kv));
    RecordedRunSource source(record_);
    ReplayWorld replay(source);
    PlanDigest digest;
    RecordingWorld world(replay, std::array<RunObserver*, 1>{&digest});
    twin::Serve(engine, world);
    if (replay.difference()) return replay.difference()->text();
    return digest.value() == digest_.value() ? "" : "digests differ";
  }

  [[nodiscard]] RealWorld& world() { return *world_; }
  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] const RecordedRun& record() const { return record_; }

  Watcher watcher;
  std::vector<StepTimes> steps;  // from step 1 on
  std::map<RequestId, std::vector<std::int32_t>> outputs;
  std::map<RequestId, std::vector<std::vector<kernels::TokenLogprob>>> told_logprobs;

 private:
  static EngineConfig ConfigOf(const PolicyConfig& policy, KvPoolConfig kv,
                               const RealWorldOptions& options) {
    kv.release_order = TraitsOf(policy).release_order;
    EngineConfig config;
    config.kv = kv;
    config.prompt_tokens_max = options.max_model_length;
    return config;
  }

  PolicyConfig policy_;
  EngineConfig config_;
  Engine engine_;
  RecordedRun record_;
  PlanDigest digest_;
  std::optional<RealWorld> world_;
};

}  // namespace twin::exec::testing
