// Results of `vllm bench serve --save-result --save-detailed`: one JSON object with a list per
// quantity. Older versions save no start_times: the lengths then need an arrival process.
#pragma once

#include "traces/trace_format.h"

namespace twin {

const TraceFormat& VllmBenchFormat();

}  // namespace twin
