// Decides one case through the real engine and loop, and compares decisions.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/schedule/schedule_case.h"
#include "lab/schedule/unit_time_world.h"
#include "sched/policy/registry.h"

namespace twin::lab {

// What a policy needs beside its parameters to be decided in unit time.
struct UnitTimePolicy {
  PolicyConfig config;
  UnitTimeOptions options;
};

// The steps of the case, one object an iteration. Throws InvariantViolation.
std::vector<nlohmann::ordered_json> DecideCase(const ScheduleCase& schedule_case,
                                               const UnitTimePolicy& policy);

// The first difference between what was expected and what was decided, in the notation
// "it3: 0:D1 1:P7 | pre=[2] | free=4"; empty if every expected field of every step is equal.
std::string FirstDifference(const ScheduleCase& schedule_case,
                            const std::vector<nlohmann::ordered_json>& decided);

}  // namespace twin::lab
