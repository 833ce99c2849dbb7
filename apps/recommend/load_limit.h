// The largest load at which bounds hold, in one run after another.
#pragma once

#include <functional>

namespace twin::run {

struct LoadSearch {
  double start = 1;         // where the answer is expected
  double low = 0;           // smallest load to try; above 0
  double high = 0;          // largest load to try
  bool whole = false;       // loads are whole numbers
  double tolerance = 0.01;  // relative width of the last bracket
  double step = 2;          // first ratio of the bracket; later ones grow, up to 4
};

// Returns the load at which `room` crosses zero: positive where the bounds hold, negative where
// they do not; it should fall with the load. Grows a bracket about `start`, bisects it at geometric
// means, and draws a straight line through its ends. Of whole loads, returns the largest one that
// holds. Returns `low` if the bounds hold nowhere, `high` if they hold everywhere. Calls `room`
// once per load. REQUIRES: 0 < low <= start <= high, step > 1.
double FindLoadLimit(const LoadSearch& search, const std::function<double(double)>& room);

}  // namespace twin::run
