#include "run/bounds/gap_to_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <variant>
#include <vector>

#include "core/input_error.h"
#include "core/layer_groups.h"
#include "run/record/run_listener.h"
#include "run/record/run_observer.h"
#include "run/simulation.h"

namespace twin::run {
namespace {

[[noreturn]] void RefuseBounds(const std::string& field, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, field, what);
}

void RequireProvenBounds(const Deployment& deployment) {
  const ExperimentConfig& config = deployment.config;
  if (deployment.cost == nullptr) RefuseBounds("world.real", "has no bounds; allowed: simulated");
  if (config.system.replicas > 1) RefuseBounds("system.replicas", "has bounds only for 1");
  if (deployment.cost->stages() > 1) {
    RefuseBounds("system.pipeline_parallel_size", "has bounds only for 1");
  }
  if (deployment.traits.drafts_max > 0) RefuseBounds("speculation", "has no bounds; leave it out");
  const sim::CostTraits cost = sim::TraitsOf(config.cost);
  if (!cost.has_proven_bounds) {
    RefuseBounds("cost", "has no proven bounds; allowed: constant, linear, roofline");
  }
  const ModelSpec& model = config.system.model_spec;
  const bool windowed = OrderedLayers(model).front().layer.sliding_window > 0;
  if (cost.reads_data_sheet && (model.moe.experts > 0 || windowed || ListsLayers(model))) {
    RefuseBounds(
        "system.model",
        "has no proven bounds with the roofline; allowed: dense models without sliding windows");
  }
}

// Collects the facts about a run that the bounds need.
class WorkCollector final : public RunListener, public RunObserver {
 public:
  void OnEnded(const RequestLife& life) override {
    if (life.status == RequestStatus::kCompleted && life.has_tokens()) {
      lives.push_back(life);
    } else {
      ++left_out;
    }
  }
  void OnPlan(TimePoint /*now*/, const StepPlan& /*plan*/) override {}
  void OnInstant(const Instant& instant) override {
    for (const Event& event : instant.events) {
      if (const auto* arrived = std::get_if<RequestArrived>(&event)) {
        const auto& keys = arrived->request.prefix_keys;
        if (keys.empty()) continue;
        keys_[arrived->request.id].assign(keys.begin(), keys.end());
        for (const BlockKey key : keys) ++uses_[key];
      } else if (const auto* finished = std::get_if<StepFinished>(&event)) {
        for (const BlockFilled& filled : finished->filled) ++uses_[filled.key];
      }
    }
  }

  // Work of the requests that completed, in order of arrival.
  [[nodiscard]] std::vector<RequestWork> Works(std::int32_t key_tokens) const {
    std::vector<RequestWork> works;
    for (const RequestLife& life : lives) {
      RequestWork work{.arrival = life.arrival,
                       .prompt_tokens = life.prompt_tokens,
                       .output_tokens = life.output_tokens};
      if (const auto keys = keys_.find(life.id); keys != keys_.end()) {
        const auto shared = std::count_if(keys->second.begin(), keys->second.end(),
                                          [this](BlockKey key) { return uses_.at(key) > 1; });
        work.shared_tokens =
            std::min(static_cast<std::int32_t>(shared) * key_tokens, life.prompt_tokens - 1);
      }
      works.push_back(work);
    }
    std::stable_sort(works.begin(), works.end(), [](const RequestWork& a, const RequestWork& b) {
      return a.arrival < b.arrival;
    });
    return works;
  }

  std::vector<RequestLife> lives;
  std::int64_t left_out = 0;

 private:
  std::unordered_map<RequestId, std::vector<BlockKey>> keys_;
  std::unordered_map<BlockKey, std::int64_t> uses_;  // number of uses in prompts and outputs
};

LatencyFloor ReachedBy(const std::vector<RequestLife>& lives) {
  LatencyFloor reached;
  if (lives.empty()) return reached;
  TimePoint begin = TimePoint::max();
  TimePoint end = TimePoint::min();
  for (const RequestLife& life : lives) {
    reached.mean_ttft_s += Seconds(life.first_received() - life.arrival);
    reached.mean_e2el_s += Seconds(life.last_received() - life.arrival);
    begin = std::min(begin, life.arrival);
    end = std::max(end, life.last_received());
  }
  reached.mean_ttft_s /= static_cast<double>(lives.size());
  reached.mean_e2el_s /= static_cast<double>(lives.size());
  reached.makespan_s = Seconds(end - begin);
  return reached;
}

}  // namespace

WorkFloor& WorkFloors::Of(const Deployment& deployment) {
  ExperimentConfig costs;
  costs.system = deployment.config.system;
  costs.cost = deployment.config.cost;
  const KvPoolConfig& kv = deployment.engine.kv;
  const std::int64_t cache_tokens = std::int64_t{kv.blocks} * kv.block_size;
  const std::string key = fmt::format("{}\n{}", cache_tokens, WriteResolved(costs));
  auto held = held_.find(key);
  if (held == held_.end()) {
    held =
        held_.emplace(key, Held{deployment.cost, WorkFloor(*deployment.cost, cache_tokens)}).first;
  }
  return held->second.floor;
}

GapToBound MeasureGapToBound(const Deployment& deployment, RunControl& control,
                             WorkFloors& floors) {
  RequireProvenBounds(deployment);
  WorkCollector collector;
  RunWatchers watchers;
  watchers.listeners.push_back(&collector);
  watchers.observers.push_back(&collector);
  GapToBound gap;
  gap.policy = deployment.traits.name;
  gap.interrupted = Simulate(deployment, control, watchers).interrupted;
  gap.requests = static_cast<std::int64_t>(collector.lives.size());
  gap.left_out = collector.left_out;
  gap.reached = ReachedBy(collector.lives);
  gap.floor =
      FloorOf(collector.Works(deployment.engine.kv.tokens_per_key()), floors.Of(deployment));
  return gap;
}

}  // namespace twin::run
