// Scales the measurements of a profile to one speed of the machine.
#pragma once

#include "apps/profile/profile_measurements.h"
#include "exec/speed_probe.h"

namespace twin::run {

// Multiplies the times of every row by the reference probe over the probe at the time of the row
// (the median of 21 probes around it in the same round, so that the noise of single ones cancels
// out): the decode probe for rows that compute single tokens, the prefill probe for all others.
// Rows that were measured together have one probe. Returns the reference, the median over all
// probes; zeros, and rows unchanged, if a row has no probe.
exec::ProbeSeconds ScaleToOneSpeed(Profile& profile);

}  // namespace twin::run
