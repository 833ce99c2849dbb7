// Figures as SVG elements, for pages without a script.
#pragma once

#include <string>

#include "apps/page/figure.h"

namespace twin::run {

// An <svg> element with what the figure draws; its title and note are text of the page. Markers are
// circles. REQUIRES: the figure has lines, steps, points and bars alone, without bands, areas,
// bounds, hollow markers and suffixes of axes. All its bars have the same labels, and begin at 0.
std::string FigureSvg(const Figure& figure);

}  // namespace twin::run
