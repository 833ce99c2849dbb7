// profile_export.jsonl of AIPerf (NVIDIA): one record per line with metadata.request_start_ns and
// the values of metrics. Records of the warm-up are left out.
#pragma once

#include "traces/trace_format.h"

namespace twin {

const TraceFormat& AiPerfFormat();

}  // namespace twin
