// Scales the measurements of a profile to one speed of the machine.
#pragma once

#include "apps/profile/profile_measurements.h"
#include "exec/speed_probe.h"

namespace twin::run {

// Multiplies the times of every row by the ratio of the reference probe to the probe at the time of
// the row. The latter is the median of 21 probes around the row in the same round, so that the
// noise of single probes cancels out. Rows that compute single tokens use the decode probe, all
// other rows the prefill probe. Rows that were measured together have one probe. Returns the
// reference, the median over all probes. If a row has no probe, returns zeros and leaves the rows
// unchanged.
exec::ProbeSeconds ScaleToOneSpeed(Profile& profile);

}  // namespace twin::run
