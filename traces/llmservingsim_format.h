// LLMServingSim workloads, token ids replaced by chained 16-token block ids (MIT).
#pragma once

#include "traces/trace_format.h"

namespace twin {

const TraceFormat& LlmServingSimFormat();

}  // namespace twin
