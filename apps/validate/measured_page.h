// The comparison of measured runs with their simulations as an HTML page with figures.
#pragma once

#include <span>
#include <string>

#include "apps/validate/measured_report.h"

namespace twin::apps {

// The content of report.md, and for TTFT and end-to-end latency three figures each: predicted
// against measured by request, both distributions, and both over the time of sending. A figure is
// left out where the file lacks the times that it needs. Throws InputError (usage) if the program
// has no Plotly.
std::string MeasuredPage(std::span<const NamedComparison> runs);

}  // namespace twin::apps
