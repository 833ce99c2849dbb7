// Logs of load generators: one CSV row per request with the time at which it was sent.
#pragma once

#include "traces/trace_format.h"

namespace twin {

// send_us,in_tokens,out_tokens, and the request tables of published serving runs (README.md). Rows
// come in any order, the first request is sent at time zero, and failed requests are skipped.
const TraceFormat& RequestLogFormat();

// The same tables with intended_arrival_us, the time at which an open-loop client wanted to send:
// with workload.max_in_flight the simulated client falls behind as the recorded one did.
const TraceFormat& IntendedRequestLogFormat();

}  // namespace twin
