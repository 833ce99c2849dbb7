#include "apps/page/plotly.h"

namespace twin::run {

std::string_view PlotlyScript() { return {}; }

}  // namespace twin::run
