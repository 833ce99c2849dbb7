// What a run lost without failing: rejected requests and outputs that were cut.
#pragma once

#include <string>

#include "record/summary.h"

namespace twin {

// One line for the user with counts and reasons; empty if nothing was lost. `summary` is that of a
// MetricsCollector.
std::string LossWarning(const Summary& summary);

}  // namespace twin
