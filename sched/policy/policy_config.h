// A policy with its parameters, whichever it is; registry.h lists the policies.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/any_config.h"
#include "sched/cache/kv_pool.h"
#include "sched/policy/case_name.h"
#include "sched/policy/policy.h"
#include "sched/policy/speculation.h"

namespace twin {

struct PolicyFamily {
  template <class Config>
  static constexpr bool kMember = requires {
    Config::CaseNames();
  };
  // The parameters of the first policy of the registry.
  static AnyConfig<PolicyFamily> Default();
};

// The parameters of one policy.
using PolicyConfig = AnyConfig<PolicyFamily>;

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

// Throws InputError (usage), "policy.FIELD: what is wrong, what is allowed", if fields do not fit
// each other. The range of each field: CheckRanges() (config/case_parameters.h).
void Validate(const PolicyConfig& config);

// Validate, and what the policy's own system refuses at its start.
void ValidateStartUp(const PolicyConfig& config);

// Sets the limits that the config leaves to the model (0). `model_tokens` >= 1: the positions of
// the model.
void ResolveContext(PolicyConfig& config, std::int32_t model_tokens);
// Sets the window of a policy with a pool for layers that have one, unless the config gives it. 0:
// the model's layers do not differ in their windows.
void ResolveWindow(PolicyConfig& config, std::int32_t model_window);

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
