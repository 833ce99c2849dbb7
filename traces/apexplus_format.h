// The workloads of apex_plus (microsoft/apex_plus, MIT). Arrivals restart in every group.
#pragma once

#include "traces/trace_format.h"

namespace twin {

const TraceFormat& ApexPlusFormat();

}  // namespace twin
