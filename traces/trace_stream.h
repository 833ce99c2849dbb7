// A trace as a workload uses it: cut, made faster, repeated.
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

// Opens the file. Throws InputError, here and from Next().
TraceStream OpenTraceStream(const TraceConfig& config, const RequestRules& rules);

}  // namespace twin
