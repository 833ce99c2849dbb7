// The BurstGPT traces (HPMLL/BurstGPT, CC-BY-4.0). A row with 0 response tokens is a
// failed request.
#pragma once

#include "traces/trace_format.h"

namespace twin {

const TraceFormat& BurstGptFormat();

}  // namespace twin
