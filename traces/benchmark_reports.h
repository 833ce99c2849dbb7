// The formats of per-request reports in JSON that benchmark tools write.
#pragma once

#include "traces/trace_format.h"

namespace twin {

// Results of `vllm bench serve --save-result --save-detailed`: one JSON object with a list per
// quantity. Older versions save no start_times: the lengths then need an arrival process.
TraceFormat VllmBenchFormat();

// per_request_lifecycle_metrics.json of inference-perf (kubernetes-sigs): an array of requests with
// start_time in seconds and info.input_tokens, info.output_tokens.
TraceFormat InferencePerfFormat();

// profile_export.jsonl of AIPerf (NVIDIA): one record per line with metadata.request_start_ns and
// the values of metrics. Records of the warm-up are left out.
TraceFormat AiPerfFormat();

}  // namespace twin
