// The Mooncake traces (kvcache-ai/Mooncake, FAST25-release, Apache-2.0).
#pragma once

#include "traces/trace_format.h"

namespace twin {

const TraceFormat& MooncakeFormat();

}  // namespace twin
