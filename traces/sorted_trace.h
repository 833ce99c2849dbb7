// Reads a whole trace whose rows come in any order, such as a client's log, which is written as
// requests end.
#pragma once

#include <memory>

#include "traces/trace_reader.h"

namespace twin {

// The reader's requests in order of arrival (equal arrivals keep the file's order), with the
// earliest at time zero if `from_zero`. Without arrivals the order and the requests are the
// reader's. Reads everything at once: memory grows with the file. Throws InputError as the reader
// does.
std::unique_ptr<TraceReader> SortByArrival(std::unique_ptr<TraceReader> reader,
                                           bool from_zero = true);

}  // namespace twin
