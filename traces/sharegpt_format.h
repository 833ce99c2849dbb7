// Length pairs counted from ShareGPT conversations; they have no arrivals.
#pragma once

#include "traces/trace_format.h"

namespace twin {

const TraceFormat& ShareGptFormat();

}  // namespace twin
