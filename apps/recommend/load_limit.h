// The largest load at which bounds hold, in one run after another.
#pragma once

#include <functional>

namespace twin::run {

struct LoadSearch {
  double start = 1;         // where the answer is expected
  double low = 0;           // nothing is tried below; above 0
  double high = 0;          // nor above
  bool whole = false;       // loads are whole numbers
  double tolerance = 0.01;  // relative width of the last bracket
  double step = 2;          // first ratio of the bracket; later ones grow, up to 4
};

// `room` is positive where the bounds hold and negative where they do not; it should fall with the
// load. Returns where it crosses zero: a bracket about `start` that grows in both directions, its
// bisection at geometric means, and a straight line through its ends; of whole loads, the largest
// one that holds. `low` if the bounds hold nowhere, `high` if they hold everywhere. Asks `room`
// once per load. REQUIRES: 0 < low <= start <= high, step > 1.
double FindLoadLimit(const LoadSearch& search, const std::function<double(double)>& room);

}  // namespace twin::run
