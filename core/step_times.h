// When a step ran, and where its time went.
#pragma once

#include "core/step_parts.h"
#include "core/time.h"

namespace twin {

// planned <= started <= finished <= told. The device parts sum to finished - started; delivery is
// told - finished; schedule is started - the later of planned and the end of the step before on the
// device.
struct StepTimes {
  TimePoint planned;   // the instant at which the engine planned it
  TimePoint started;   // the device began
  TimePoint finished;  // the device ended
  TimePoint told;      // the instant that carried its StepFinished
  StepParts parts = {};

  bool operator==(const StepTimes&) const = default;
};

}  // namespace twin
