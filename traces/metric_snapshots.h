// A measured run as the difference of two snapshots of a server's /metrics.
#pragma once

#include <string>
#include <string_view>

#include "traces/benchmark_run.h"

namespace twin {

// Reads two snapshots of vLLM's or SGLang's /metrics (Prometheus text), taken before and after a
// run: histograms of TTFT, ITL, TPOT, end-to-end latency, lengths of prompts and outputs; their
// means; preemptions, prefix hits, and what labels and gauges say of the server. Samples of several
// engines are added. Times are the server's. Throws InputError (data): file, line, what is wrong,
// what is allowed; also if a counter falls, or no request ended.
BenchmarkRun ReadMetricSnapshots(const std::string& before, const std::string& after);

// Whether a file with this first line is a snapshot.
bool IsMetricSnapshot(std::string_view first_line);

}  // namespace twin
