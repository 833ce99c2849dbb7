// What a run lost without failing: requests without an answer and outputs that were cut.
#pragma once

#include <string>

#include "run/record/summary.h"

namespace twin {

// One line for the user with counts and reasons; empty if nothing was lost. `summary` is that of a
// MetricsCollector.
std::string LossWarning(const Summary& summary);

// One line where most of the slowest 1 % of the TTFTs are of requests that arrived together at
// first; empty otherwise. Such a tail tells of the start, not of the load.
std::string BurstWarning(const Summary& summary);

// One line where a p99 is of fewer than 100 requests, and so close to their maximum.
std::string FewRequestsNote(const Summary& summary);

}  // namespace twin
