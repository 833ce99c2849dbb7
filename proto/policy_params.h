// Policies by the names and JSON parameters of the original systems, as case files have them.
#pragma once

#include <string>
#include <string_view>

#include "sched/policy/registry.h"

namespace twin {

// `policy` is a name of a scheduling case: static_padded, orca, vllm_v0, vllm_v1 (release 0.15.1),
// vllm_v1_033, sarathi, sarathi_orca, sarathi_static, mii_splitfuse; or of a config's policy:
// static, splitfuse. `params` is a JSON object; null means the default; parameters that only repeat
// what follows from others (watermark_blocks, n_slots) are passed over.
//
// Throws InputError(kUsage), `where` first, for an unknown policy, an unknown parameter, a value of
// the wrong type or out of range; each with what is allowed.
PolicyConfig ReadPolicyParams(std::string_view policy, const std::string& params,
                              const std::string& where);

}  // namespace twin
