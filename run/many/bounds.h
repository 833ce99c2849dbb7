// Bounds on metrics, as `--until` takes them: p99_ttft_ms<=1000 && p99_tpot_ms<=100.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "run/record/summary.h"

namespace twin::run {

struct MetricBound {
  enum class Kind { kAtMost, kAtLeast };
  std::string metric;  // a key of summary.json
  Kind kind = Kind::kAtMost;
  double limit = 0;

  // How far the value is from the limit, as a share of it; of a limit of 0, in the metric's unit.
  // Positive where the bound holds with room, negative where it is broken.
  [[nodiscard]] double Room(double value) const {
    const double room = kind == Kind::kAtMost ? limit - value : value - limit;
    return limit == 0 ? room : room / std::abs(limit);
  }
  // Whether the bound holds; equality counts.
  [[nodiscard]] bool Holds(double value) const { return Room(value) >= 0; }
  // The bound as it was written, without spaces.
  [[nodiscard]] std::string text() const;
};

// The value that the bound judges: the metric's value, or NaN where the run breaks the bound by
// itself, because more clients than the metric allows got no answer (UnansweredMax): the
// latencies then describe the few clients that got one. REQUIRES: the run has the metric.
double JudgedValue(const Summary& summary, const MetricBound& bound);

// One bound or several joined by &&; each a metric, <= or >= (< and > are taken as these), and a
// number. Throws InputError (usage) with what is wrong and what is allowed, also for a metric that
// no run has.
std::vector<MetricBound> ParseBounds(std::string_view text);

}  // namespace twin::run
