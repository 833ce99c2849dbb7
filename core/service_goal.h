// Bounds on the latencies of a request that make it a good one.
#pragma once

#include <optional>

#include "core/time.h"

namespace twin {

// Each bound is inclusive. If none is set, no goodput is reported.
struct ServiceGoal {
  std::optional<Duration> ttft;
  std::optional<Duration> tpot;
  std::optional<Duration> e2el;

  [[nodiscard]] bool any() const { return ttft || tpot || e2el; }
};

}  // namespace twin
