// Plotly, the JavaScript library that draws the figures of a page.
#pragma once

#include <string_view>

namespace twin::run {

// The text of plotly.min.js (MIT licence, 4.8 MB), which is part of the program, or lies beside it
// in wheels (plotly_loaded.h); empty in builds without it. tools/cmake/TwinPlotly.cmake says where
// it comes from.
std::string_view PlotlyScript();

}  // namespace twin::run
