#include "lab/report/plotly.h"

namespace twin::lab {

std::string_view PlotlyScript() { return {}; }

}  // namespace twin::lab
