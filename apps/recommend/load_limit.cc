#include "apps/recommend/load_limit.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace twin::run {
namespace {

constexpr double kStepMax = 4;

struct Probe {
  double load = 0;
  double room = 0;
};

double RoundedLoad(double load, bool whole) { return whole ? std::round(load) : load; }

// `load` times `ratio`; of whole loads at least one further.
double Moved(double load, double ratio, bool whole) {
  const double moved = RoundedLoad(load * ratio, whole);
  if (!whole || moved != load) return moved;
  return ratio > 1 ? load + 1 : load - 1;
}

double Between(const Probe& low, const Probe& high, const LoadSearch& search) {
  if (search.whole) return low.load;
  const double share = std::isfinite(high.room) ? low.room / (low.room - high.room) : 0;
  return low.load + share * (high.load - low.load);
}

double Bisect(Probe low, Probe high, const LoadSearch& search,
              const std::function<double(double)>& room) {
  for (;;) {
    const bool narrow = search.whole ? high.load - low.load <= 1
                                     : high.load - low.load <= search.tolerance * high.load;
    if (narrow) return Between(low, high, search);
    const double middle = RoundedLoad(std::sqrt(low.load * high.load), search.whole);
    if (middle <= low.load || middle >= high.load) return Between(low, high, search);
    const Probe probe{middle, room(middle)};
    (probe.room >= 0 ? low : high) = probe;
  }
}

}  // namespace

double FindLoadLimit(const LoadSearch& search, const std::function<double(double)>& room) {
  CHECK(search.low > 0 && search.low <= search.start && search.start <= search.high);
  CHECK(search.step > 1);
  const double start = RoundedLoad(search.start, search.whole);
  Probe here{start, room(start)};
  const bool up = here.room >= 0;
  for (double step = search.step;; step = std::min(step * step, std::max(kStepMax, step))) {
    const double ratio = up ? step : 1 / step;
    const double next = std::clamp(Moved(here.load, ratio, search.whole), search.low, search.high);
    if (next == here.load) return here.load;
    const Probe there{next, room(next)};
    if ((there.room >= 0) != up)
      return up ? Bisect(here, there, search, room) : Bisect(there, here, search, room);
    here = there;
  }
}

}  // namespace twin::run
