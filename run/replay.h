// Repeats the decisions of a recorded run with a fresh engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "config/experiment_config.h"
#include "run/files/record_file.h"
#include "run/record/record_source.h"
#include "run/record/replay_world.h"
#include "run/record/run_observer.h"
#include "sched/engine.h"

namespace twin::run {

struct ReplayResult {
  std::uint64_t digest = 0;  // of the plans that were decided now
  std::string digest_text;
  std::uint64_t plans = 0;
  std::uint64_t equal_plans = 0;
  std::optional<ReplayDifference> difference;
};

// Delivers the recorded events to a new engine with this policy, and compares each of its plans
// with the recorded one. Stops at the first plan that differs.
ReplayResult ReplayDecisions(RecordSource& record, const PolicyConfig& policy,
                             const EngineConfig& engine);

// Replays a record of the experiment, with its own policy where it has one. With several replicas
// the router decides again, too. `observers` see the replayed run.
ReplayResult ReplayDecisions(RecordSource& record, const ExperimentConfig& config,
                             const RecordHeader& header,
                             std::span<RunObserver* const> observers = {});

// Replays with a policy that is not in the registry. REQUIRES: a fresh policy.
ReplayResult ReplayDecisions(RecordSource& record, std::unique_ptr<Policy> policy,
                             const EngineConfig& engine);

}  // namespace twin::run
