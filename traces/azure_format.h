// The Azure LLM inference traces of 2023 and 2024 (Azure/AzurePublicDataset, CC-BY-4.0).
#pragma once

#include "traces/trace_format.h"

namespace twin {

const TraceFormat& AzureFormat();

}  // namespace twin
