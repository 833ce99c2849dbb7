// The system for which a policy of the registry decides, as far as policies ask something of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "sched/policy/policy_config.h"

namespace twin {

struct SystemOfPolicy {
  std::string_view model;  // its name
  // Tokens that the layers with windows keep, beside layers that keep all; 0: the layers do not
  // differ in it.
  std::int32_t window = 0;
  // Requests whose states the memory holds; unset: they do not limit how many run.
  std::optional<std::int64_t> state_slots = std::nullopt;
};

// Lowers the limits of the policy to those with which its server would run on this system.
void LimitBySystem(PolicyConfig& config, const SystemOfPolicy& system);

// Throws InputError (usage), "policy.NAME.FIELD: what is wrong, what is allowed", for a policy that
// cannot decide for this system.
void RequireSystem(const PolicyConfig& config, const SystemOfPolicy& system);

}  // namespace twin
