// The traces of the Vidur simulator (microsoft/vidur, data/processed_traces, MIT).
#pragma once

#include "traces/trace_format.h"

namespace twin {

const TraceFormat& VidurFormat();

}  // namespace twin
