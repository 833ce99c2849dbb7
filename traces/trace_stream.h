// Applies a workload's options to a trace: start, duration, rate scale, repetition.
#pragma once

#include <memory>

#include "traces/request_rules.h"
#include "traces/request_stream.h"
#include "traces/trace_report.h"

namespace twin {

struct TraceStream {
  std::unique_ptr<RequestStream> requests;
  bool has_arrivals = false;
};

// Opens the file. `report` may be null, and must outlive the result. Throws InputError; so does
// Next() of the result.
TraceStream OpenTraceStream(const TraceConfig& config, const RequestRules& rules,
                            TraceReport* report);

}  // namespace twin
