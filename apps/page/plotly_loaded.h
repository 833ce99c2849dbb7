// Plotly in wheels, whose files lie beside the program.
#pragma once

#include <functional>
#include <string>

namespace twin::run {

// PlotlyScript() calls `load` once, when a page needs the script. Not thread-safe.
void SetPlotlyLoader(std::function<std::string()> load);

}  // namespace twin::run
