// Prompt and output lengths of ShareGPT conversations, without arrivals.
#pragma once

#include "traces/trace_format.h"

namespace twin {

const TraceFormat& ShareGptFormat();

}  // namespace twin
