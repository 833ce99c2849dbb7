// Scales the measurements of a profile to one speed of the machine.
#pragma once

#include "exec/speed_probe.h"
#include "lab/profile/profile_file.h"

namespace twin::lab {

// Multiplies the times of every row by the reference probe over the probe at the time of the row
// (the median of seven rows around it, so that noise of single probes cancels out): the decode
// probe for rows that compute single tokens, the prefill probe for all others. Returns the
// reference, the median over all rows; zeros, and rows unchanged, if a row has no probe.
exec::ProbeSeconds ScaleToOneSpeed(Profile& profile);

}  // namespace twin::lab
