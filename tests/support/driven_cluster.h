// Drives a cluster by hand: a test says which request arrives, which step ends and which transfer,
// an instant each, and reads the steps in flight.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/time.h"
#include "sched/cluster.h"
#include "sched/engine.h"
#include "sched/policy/registry.h"

namespace twin::testing {

// Engines of one policy, a pool each.
inline std::vector<std::unique_ptr<Engine>> EnginesOf(const PolicyConfig& policy,
                                                      const std::vector<KvPoolConfig>& pools) {
  std::vector<std::unique_ptr<Engine>> engines;
  for (const KvPoolConfig& kv : pools) {
    EngineConfig replica;
    replica.kv = kv;
    replica.replica = static_cast<std::int32_t>(engines.size());
    engines.push_back(std::make_unique<Engine>(replica, MakePolicy(policy, kv)));
  }
  return engines;
}

// Requests are numbered in the order of their arrival. One step of each replica is in flight.
class DrivenCluster {
 public:
  using Requests = std::vector<std::uint32_t>;

  explicit DrivenCluster(std::unique_ptr<Cluster> cluster) : cluster_(std::move(cluster)) {}

  void Arrive(std::int32_t prompt_tokens, std::int32_t output_tokens) {
    ArriveTogether({{prompt_tokens, output_tokens}});
  }
  // Prompts and outputs.
  void ArriveTogether(const std::vector<std::pair<std::int32_t, std::int32_t>>& requests) {
    std::vector<Event> events;
    for (const auto& [prompt, output] : requests) {
      RequestArrived arrived;
      arrived.request.id = RequestId{arrivals_++};
      arrived.request.prompt_tokens = prompt;
      arrived.request.max_output_tokens = output;
      events.emplace_back(arrived);
    }
    Handle(events);
  }
  // The step of the replica ends, and with it these requests.
  void EndStep(std::int32_t replica, const Requests& ended = {}) {
    std::vector<ItemOutcome> outcomes;
    for (const std::uint32_t id : ended) {
      outcomes.push_back({RequestId{id}, 1, FinishReason::kStop});
    }
    const std::uint64_t step = std::exchange(steps_[replica], 0);
    Handle({StepFinished{StepId{step}, now_, outcomes, {}, replica}});
  }
  // The keys and values of a request have come.
  void EndTransfer(std::uint32_t id, std::int32_t from = 0, std::int32_t to = 1) {
    Handle({TransferFinished{RequestId{id}, from, to, now_}});
  }

  // The requests of the replica's step in flight.
  [[nodiscard]] Requests Batch(std::int32_t replica) {
    Requests requests;
    if (steps_[replica] == 0) return requests;
    for (const WorkItem& item : engine(replica).PlanOf(StepId{steps_[replica]}).work) {
      requests.push_back(Index(item.request));
    }
    return requests;
  }
  // Those whose transfers began in the latest instant.
  [[nodiscard]] const Requests& fetched() const { return fetched_; }
  [[nodiscard]] std::int32_t FreeBlocks(std::int32_t replica) {
    return engine(replica).pool().free();
  }
  [[nodiscard]] Engine& engine(std::int32_t replica) { return cluster_->engine(replica); }
  [[nodiscard]] Cluster& cluster() { return *cluster_; }

 private:
  void Handle(const std::vector<Event>& events) {
    now_ += Duration{1};
    for (const Event& event : events) cluster_->Handle(now_, event);
    while (const StepPlan* plan = cluster_->PlanStep(now_)) steps_[plan->replica] = Index(plan->id);
    fetched_.clear();
    while (const KvTransfer* transfer = cluster_->NextTransfer()) {
      fetched_.push_back(Index(transfer->request));
    }
  }

  std::unique_ptr<Cluster> cluster_;
  TimePoint now_ = kTimeZero;
  std::uint32_t arrivals_ = 0;
  std::map<std::int32_t, std::uint64_t> steps_;  // in flight, by replica
  Requests fetched_;
};

}  // namespace twin::testing
