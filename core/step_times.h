// The times at which a step was planned, ran, and was reported, with its parts.
#pragma once

#include "core/step_parts.h"
#include "core/time.h"

namespace twin {

// Invariants: planned <= started <= finished <= told. The device parts sum to finished - started.
// Delivery is told - finished. Schedule is started - max(planned, end of the previous step on the
// device).
struct StepTimes {
  TimePoint planned;   // the instant at which the engine planned it
  TimePoint started;   // the device began
  TimePoint finished;  // the device ended
  TimePoint told;      // the instant that delivered its StepFinished to the engine
  StepParts parts = {};

  bool operator==(const StepTimes&) const = default;
};

}  // namespace twin
