// Logs of load generators: one CSV row per request with the time at which it was sent.
#pragma once

#include "traces/trace_format.h"

namespace twin {

// Tables with in_tokens, out_tokens and the time at which a request was sent (README.md), as load
// generators and published serving runs have them. Rows come in any order, the first request is
// sent at time zero, failed requests are skipped, and other columns are ignored.
const TraceFormat& RequestLogFormat();

// The same tables with intended_arrival_us, the time at which an open-loop client wanted to send:
// with workload.max_in_flight the simulated client falls behind as the recorded one did. Used where
// it is named, never recognised.
const TraceFormat& IntendedRequestLogFormat();

}  // namespace twin
