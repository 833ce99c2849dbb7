// Runs a scheduling case through the engine and compares its decisions with the expected ones.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/schedule/schedule_case.h"
#include "sched/policy/policy_config.h"

namespace twin::run {

// Runs the policy on the case; returns one object per iteration, or per batch in a case with a
// batch time. Throws InvariantViolation.
std::vector<nlohmann::ordered_json> DecideCase(const ScheduleCase& schedule_case,
                                               const PolicyConfig& policy);

// The first difference between what was expected and what was decided, in the notation
// "it3: 0:D1 1:P7 | pre=[2] | free=4"; empty if every expected field of every step is equal.
std::string FirstDifference(const ScheduleCase& schedule_case,
                            const std::vector<nlohmann::ordered_json>& decided);

}  // namespace twin::run
