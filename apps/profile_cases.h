// Everything that a profile measures, as a list of things to call.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/profile_file.h"
#include "exec/profile/operations.h"
#include "exec/profile/profile_grid.h"
#include "exec/profile/spread.h"
#include "exec/profile/synthetic_steps.h"

namespace twin::apps {

// One thing to measure. `keys` are those of the rows that `measure` returns.
struct ProfileCase {
  std::vector<std::string> keys;
  std::function<std::vector<ProfileRow>()> measure;
};

// Operations alone and whole steps; the cases borrow their arguments.
std::vector<ProfileCase> OperationCases(const exec::ProfileLimits& limits,
                                        const exec::RepeatRule& rule, exec::Operations& operations,
                                        std::int64_t cache_blocks);
std::vector<ProfileCase> StepCases(const exec::ProfileLimits& limits, const exec::RepeatRule& rule,
                                   exec::SyntheticSteps& steps);

}  // namespace twin::apps
