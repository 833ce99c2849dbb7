// per_request_lifecycle_metrics.json of inference-perf (kubernetes-sigs): an array of requests with
// start_time in seconds and info.input_tokens, info.output_tokens.
#pragma once

#include "traces/trace_format.h"

namespace twin {

const TraceFormat& InferencePerfFormat();

}  // namespace twin
