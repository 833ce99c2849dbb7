// Every policy that can be named in a configuration.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <variant>

#include "sched/cache/kv_pool.h"
#include "sched/policy/orca.h"
#include "sched/policy/policy.h"
#include "sched/policy/sarathi.h"
#include "sched/policy/splitfuse.h"
#include "sched/policy/static_batching.h"
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
    PolicyEntry<SplitFuseConfig, SplitFusePolicy>>;
// clang-format on

using PolicyConfig = Policies::Config;

// REQUIRES: a config that Validate accepts.
std::unique_ptr<Policy> MakePolicy(const PolicyConfig& config, const KvPoolConfig& kv);

// Throws InputError (usage), "policy.FIELD: what is wrong, what is allowed", if the policy cannot
// decide anything with the config.
void Validate(const PolicyConfig& config);

// Validate, and what the policy's own system refuses at its start.
void ValidateStartUp(const PolicyConfig& config);

// The traits of the policy that MakePolicy would make, without making it. Safe for any config,
// also for one that Validate refuses.
PolicyTraits TraitsOf(const PolicyConfig& config);

// vLLM V1 with its defaults: what serves where nobody has named a policy.
PolicyConfig DefaultPolicyConfig();

}  // namespace twin
