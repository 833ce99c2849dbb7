// Our own CSV: everything a request can have, one column each, units in the names.
#pragma once

#include "traces/trace_format.h"

namespace twin {

const TraceFormat& TwinFormat();

}  // namespace twin
