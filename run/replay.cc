#include "run/replay.h"

#include <utility>
#include <vector>

#include "run/deployed_groups.h"
#include "run/deployment.h"
#include "run/make_engines.h"
#include "run/own_policy.h"
#include "run/record/plan_digest.h"
#include "run/record/recording_world.h"
#include "sched/serve.h"

namespace twin::run {
namespace {

// REQUIRES: Scheduler is Engine or Cluster, and `scheduler` is fresh.
template <class Scheduler>
ReplayResult ReplayWith(RecordSource& record, Scheduler& scheduler,
                        std::span<RunObserver* const> watchers = {}) {
  ReplayWorld replayed(record);
  PlanDigest digest;
  std::vector<RunObserver*> observers = {&digest};
  observers.insert(observers.end(), watchers.begin(), watchers.end());
  RecordingWorld world(replayed, observers);
  Serve(scheduler, world);
  return {.digest = digest.value(),
          .digest_text = digest.text(),
          .plans = digest.plans(),
          .equal_plans = replayed.equal_plans(),
          .difference = replayed.difference()};
}

}  // namespace

ReplayResult ReplayDecisions(RecordSource& record, const PolicyConfig& policy,
                             const EngineConfig& engine) {
  return ReplayDecisions(record, MakePolicy(policy, engine.kv), engine);
}

ReplayResult ReplayDecisions(RecordSource& record, const ExperimentConfig& config,
                             const RecordHeader& header, std::span<RunObserver* const> observers) {
  if (const auto loaded = WithOwnPolicy(config)) {
    return ReplayDecisions(record, *loaded, header, observers);
  }
  const EngineGroups engines = EnginesOf(config, header);
  if (config.system.replicas > 1) {
    return ReplayWith(record, *MakeCluster(config, engines), observers);
  }
  Engine engine(header.engine, MakePolicyOf(config, 0, header.engine.kv));
  return ReplayWith(record, engine, observers);
}

ReplayResult ReplayDecisions(RecordSource& record, std::unique_ptr<Policy> policy,
                             const EngineConfig& engine_config) {
  Engine engine(engine_config, std::move(policy));
  return ReplayWith(record, engine);
}

}  // namespace twin::run
