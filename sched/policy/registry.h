// Every policy that can be named in a configuration.
//
// A line here adds a policy to the schema's oneof (under Config::kName), to `schedule` and --policy
// (under its CaseNames), and to the tests that run for all policies; CMake takes the files to
// compile and to test from the includes below.
//
// A Config is an aggregate of parameters with
//   kName                       its name in configurations
//   Traits()                    safe for any values
//   Validate()                  throws InputError unless the policy can decide with the values
//   ValidateStartUp()           optional: and what the original system refuses at its start
//   ResolveContext(tokens)      sets limits that are left to the model (0)
//   ValidateContext(tokens)     throws InputError if it allows longer requests than the model
//   CaseNames()                 its names in scheduling cases
//   speculation                 optional: the member that SetSpeculation sets
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "sched/cache/kv_pool.h"
#include "sched/policy/case_name.h"
#include "sched/policy/distserve.h"
#include "sched/policy/fastserve.h"
#include "sched/policy/lightllm.h"
#include "sched/policy/orca.h"
#include "sched/policy/policy.h"
#include "sched/policy/sarathi.h"
#include "sched/policy/sglang.h"
#include "sched/policy/speculation.h"
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
struct PolicyRegistry {
  using Config = std::variant<typename Entries::Config...>;
};

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
    PolicyEntry<SplitwiseConfig, SplitwisePolicy>>;
// clang-format on

using PolicyConfig = Policies::Config;

// Calls visit(Entry{}) for each policy, in the order of the registry.
template <class... Entries, class Visit>
void ForEachPolicy(PolicyRegistry<Entries...> /*registry*/, Visit&& visit) {
  (visit(Entries{}), ...);
}
template <class Visit>
void ForEachPolicy(Visit&& visit) {
  ForEachPolicy(Policies{}, visit);
}

// In the order of the registry: the names in configurations, and each policy with its defaults.
std::vector<std::string_view> PolicyNames();
std::vector<PolicyConfig> DefaultPolicyConfigs();

// One way to ask for a policy in a scheduling case.
struct PolicyCase {
  std::string_view policy;
  CaseName name;
};
std::vector<PolicyCase> PolicyCases();

// Throws InputError as Validate does, and where a limit that the policy cannot do without is left
// to the model and ResolveContext has not been called.
std::unique_ptr<Policy> MakePolicy(const PolicyConfig& config, const KvPoolConfig& kv);

// Throws InputError (usage), "policy.FIELD: what is wrong, what is allowed", if the policy cannot
// decide anything with the config.
void Validate(const PolicyConfig& config);

// Validate, and what the policy's own system refuses at its start.
void ValidateStartUp(const PolicyConfig& config);

// Sets the limits that the config leaves to the model (0). `model_tokens` >= 1: the positions of
// the model.
void ResolveContext(PolicyConfig& config, std::int32_t model_tokens);

// Throws InputError (usage) if the config allows longer requests than the model has positions.
void ValidateContext(const PolicyConfig& config, std::int32_t model_tokens);

// Lets the policy speculate. Returns false and does nothing if its system is not known to do so.
[[nodiscard]] bool SetSpeculation(PolicyConfig& config, const SpeculationRules& rules);

// The traits of the policy that MakePolicy would make, without making it. Safe for any config,
// also for one that Validate refuses.
PolicyTraits TraitsOf(const PolicyConfig& config);

// vLLM V1 with its defaults: what serves where nobody has named a policy.
PolicyConfig DefaultPolicyConfig();

}  // namespace twin
