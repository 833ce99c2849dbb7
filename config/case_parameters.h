// Reads policies from the names and JSON parameters of the original systems, as in case files.
#pragma once

#include <string>
#include <string_view>

#include "sched/policy/policy_config.h"

namespace twin {

// `policy` is one of PolicyCases() (sched/policy/policy_config.h): vllm_v1 (release 0.15.1),
// vllm_v1_033, orca, sarathi_orca, ... `params` is a JSON object; null means the default. Ignores
// parameters that follow from other ones (watermark_blocks, n_slots). The context limit stays open
// (0) if it is not given: call ResolveContext where the model is known.
//
// Throws InputError(kUsage), `where` first, for an unknown policy, an unknown parameter, a value of
// the wrong type or out of range; each with what is allowed.
PolicyConfig ReadCaseParameters(std::string_view policy, const std::string& params,
                                const std::string& where);

// Throws InputError(kUsage), "policy: NAME.FIELD: ...", if a field is outside the range that
// policy.proto states. Reading a file checks this; call it for parameters that were set in C++,
// after ResolveContext.
void CheckRanges(const PolicyConfig& config);

}  // namespace twin
