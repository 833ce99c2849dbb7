// Modes of the schedulers of servers: Triton, LightLLM, TensorRT-LLM and SGLang.
#pragma once

#include <vector>

#include "tests/support/hostile_policies.h"

namespace twin::testing {

void AddServerModes(std::vector<PolicyMode>& modes);

}  // namespace twin::testing
