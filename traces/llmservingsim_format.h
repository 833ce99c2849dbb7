// LLMServingSim workloads (casys-kaist/LLMServingSim, MIT): requests and sessions with token ids,
// as its generators write them, or copies with chained 16-token block ids instead.
#pragma once

#include "traces/trace_format.h"

namespace twin {

const TraceFormat& LlmServingSimFormat();

}  // namespace twin
