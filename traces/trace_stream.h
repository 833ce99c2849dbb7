// Applies a workload's options to a trace: start, duration, rate scale, repetition.
#pragma once

#include <memory>

#include "traces/request_rules.h"
#include "traces/request_stream.h"
#include "traces/workload.h"

namespace twin {

struct TraceStream {
  std::unique_ptr<RequestStream> requests;
  bool has_arrivals = false;
};

// Opens the file. Throws InputError; so does Next() of the result.
TraceStream OpenTraceStream(const TraceConfig& config, const RequestRules& rules);

}  // namespace twin
