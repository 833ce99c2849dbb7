// The Qwen-Bailian traces (alibaba-edu/qwen-bailian-usagetraces-anon, Apache-2.0): the keys of
// Mooncake's lines, but seconds and chunks of 16 tokens.
#pragma once

#include "traces/trace_format.h"

namespace twin {

const TraceFormat& QwenBailianFormat();

}  // namespace twin
