// Results of benchmark tools as traces: the load that they sent.
#pragma once

#include <vector>

#include "traces/trace_format.h"

namespace twin {

// The formats of JSON that ReadBenchmarkRuns reads, for files of one run with its requests. Runs
// without times of sending have lengths that need an arrival process.
std::vector<TraceFormat> BenchmarkFormats();

}  // namespace twin
