// Warnings about losses of a run that did not fail: requests without an answer, and cut outputs.
#pragma once

#include <string>

#include "run/record/summary.h"

namespace twin {

// One line for the user with counts and reasons; empty if nothing was lost. `summary` comes from a
// MetricsCollector.
std::string LossWarning(const Summary& summary);

// One line if most of the slowest 1 % of the TTFTs belong to requests that arrived together at
// first; empty otherwise. Such a tail describes the start, not the load.
std::string BurstWarning(const Summary& summary);

// One line if a p99 is taken over fewer than 100 requests, and so is close to their maximum.
std::string FewRequestsNote(const Summary& summary);

}  // namespace twin
