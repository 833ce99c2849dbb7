// Runs of a policy, or of several replicas with one, in a HostileWorld, with an audit after every
// instant.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "run/hostile/hostile_world.h"
#include "run/record/run_observer.h"
#include "sched/disaggregation_config.h"
#include "sched/engine.h"
#include "sched/route/router.h"
#include "tests/support/hostile_policies.h"

namespace twin::testing {

struct HostileCase {
  DrawnPolicy policy;
  HostileOptions world;
  EngineConfig engine;
  RouterConfig router;  // of several replicas
  std::optional<DisaggregationConfig> split;
};

// A case with one engine, drawn from the seed.
HostileCase DrawHostileCase(const PolicyMode& mode, std::uint64_t seed);

// 1 to 4 replicas behind any router, whose news take 0 to 20 ticks (telemetry_delay_ms are ticks).
HostileCase DrawHostileCluster(const PolicyMode& mode, std::uint64_t seed);

// 1 to 3 replicas that prefill and 1 to 3 that decode, with such routers, of a mode whose policy
// receives keys and values. Some policies mix the phases: then half of the cases have mixed pools.
HostileCase DrawHostileSplit(const PolicyMode& mode, std::uint64_t seed);

// Throw if anything is wrong with the run.
void RunHostileCase(const HostileCase& c, std::unique_ptr<Policy> policy, RunObserver& observer);
void RunHostileCase(const HostileCase& c, RunObserver& observer);
using PolicyMaker = std::function<std::unique_ptr<Policy>(const KvPoolConfig&)>;  // of a replica
void RunHostileCluster(const HostileCase& c, const PolicyMaker& make, RunObserver& observer);
void RunHostileCluster(const HostileCase& c, RunObserver& observer);

// Of all plans of a run with one engine.
std::uint64_t DigestOf(const HostileCase& c);

}  // namespace twin::testing
