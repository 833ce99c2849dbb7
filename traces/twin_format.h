// The CSV format of twinserve: one column per property of a request, with units in the names.
#pragma once

#include "traces/trace_format.h"

namespace twin {

const TraceFormat& TwinFormat();

}  // namespace twin
