// What a run has to know of the trace that it reads.
#pragma once

#include <cstdint>
#include <memory>

#include "core/arrival_source.h"
#include "traces/trace_reader.h"
#include "traces/workload.h"

namespace twin {

// Filled in while the trace is read: whole once the workload has ended. Of a repeated trace, what
// its first pass says.
struct TraceReport {
  TraceReadCounts counts;
  bool may_be_cut = false;  // the file ends within a line
};

// MakeWorkload() of workload.h, which reports on the workload's trace, if it has one. `report` may
// be null, and must outlive the source.
std::unique_ptr<ArrivalSource> MakeWorkload(const WorkloadConfig& config, std::uint64_t seed,
                                            TraceReport* report);

}  // namespace twin
