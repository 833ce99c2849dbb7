// Every policy that can be named in a configuration.
//
// A line here adds a policy to the schema's oneof (under Config::kName), to `schedule` and --policy
// (under its CaseNames), and to the tests that run for all policies; CMake takes the files to
// compile and to test from the includes below.
//
// A Config is an aggregate of parameters with
//   kName                       its name in configurations
//   Traits()                    safe for any values
//   Validate()                  throws InputError unless the fields fit each other; the range of
//                               each field stands in config/policy.proto
//   ValidateStartUp()           optional: and what the original system refuses at its start
//   kContextField               the field that limits the tokens of a request (0 = the model's)
//   ResolveBudget()             optional: sets a step limit that depends on that field
//   CaseNames()                 its names in scheduling cases
//   speculation                 optional: the member that SetSpeculation sets
#pragma once

#include "core/any_config.h"
#include "sched/policy/distserve.h"
#include "sched/policy/fastserve.h"
#include "sched/policy/lightllm.h"
#include "sched/policy/orca.h"
#include "sched/policy/policy_config.h"
#include "sched/policy/sarathi.h"
#include "sched/policy/sglang.h"
#include "sched/policy/ship.h"
#include "sched/policy/splitfuse.h"
#include "sched/policy/splitwise.h"
#include "sched/policy/static_batching.h"
#include "sched/policy/tgi_v2.h"
#include "sched/policy/tgi_v3.h"
#include "sched/policy/triton.h"
#include "sched/policy/trtllm.h"
#include "sched/policy/vllm_v0.h"
#include "sched/policy/vllm_v1.h"

namespace twin {

// A configuration and the policy that it makes.
template <class ConfigType, class PolicyType>
struct PolicyEntry {
  using Config = ConfigType;
  using Policy = PolicyType;
};

template <class... Entries>
struct PolicyRegistry {};

// The registry: a line a policy.
// clang-format off
using Policies = PolicyRegistry<
    PolicyEntry<StaticConfig, StaticPolicy>,
    PolicyEntry<OrcaConfig, OrcaPolicy>,
    PolicyEntry<VllmV0Config, VllmV0Policy>,
    PolicyEntry<VllmV1Config, VllmV1Policy>,
    PolicyEntry<SarathiConfig, SarathiPolicy>,
    PolicyEntry<SplitFuseConfig, SplitFusePolicy>,
    PolicyEntry<TgiV2Config, TgiV2Policy>,
    PolicyEntry<TgiV3Config, TgiV3Policy>,
    PolicyEntry<TrtllmConfig, TrtllmPolicy>,
    PolicyEntry<TritonConfig, TritonPolicy>,
    PolicyEntry<LightllmConfig, LightllmPolicy>,
    PolicyEntry<SglangConfig, SglangPolicy>,
    PolicyEntry<FastServeConfig, FastServePolicy>,
    PolicyEntry<DistServeConfig, DistServePolicy>,
    PolicyEntry<SplitwiseConfig, SplitwisePolicy>,
    PolicyEntry<ShipConfig, ShipPolicy>>;
// clang-format on

// Calls visit(Entry{}) for each policy, in the order of the registry.
template <class... Entries, class Visit>
void ForEachPolicy(PolicyRegistry<Entries...> /*registry*/, Visit&& visit) {
  (visit(Entries{}), ...);
}
template <class Visit>
void ForEachPolicy(Visit&& visit) {
  ForEachPolicy(Policies{}, visit);
}

// Returns visit(struct) of the struct that `config`, a PolicyConfig, holds.
template <class... Entries, class Any, class Visit>
auto VisitPolicy(PolicyRegistry<Entries...> /*registry*/, Any& config, Visit&& visit) {
  return VisitConfig<typename Entries::Config...>(config, visit);
}
template <class Any, class Visit>
auto VisitPolicy(Any& config, Visit&& visit) {
  return VisitPolicy(Policies{}, config, visit);
}

}  // namespace twin
