// One operation of a step in closed form: its work, its rates, and so its time.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "sim/cost/step_features.h"

namespace twin::sim {

// coefficient x feature.
struct Term {
  Feature feature = Feature::kOne;
  double coefficient = 0;

  [[nodiscard]] double Of(const StepFeatures& x) const {
    return coefficient * x[static_cast<std::size_t>(feature)];
  }
};

// Seconds of one execution = latency + max(flops / flops_per_s, bytes / bytes_per_s), and 0 when
// the `gate` feature is 0: such a step does not launch it. Executed `count` times, one after the
// other.
struct Operation {
  std::string name;
  std::int64_t count = 1;
  Feature gate = Feature::kTokens;
  Term flops;
  double constant_bytes = 0;    // weights
  std::array<Term, 2> bytes{};  // further bytes
  double flops_per_s = 1;       // achieved, > 0
  double bytes_per_s = 1;       // achieved, > 0
  double constant_latency_s = 0;
  Term latency_s;  // further latency

  [[nodiscard]] bool IsLaunched(const StepFeatures& x) const {
    return x[static_cast<std::size_t>(gate)] > 0;
  }
  [[nodiscard]] double Flops(const StepFeatures& x) const { return flops.Of(x); }
  [[nodiscard]] double Bytes(const StepFeatures& x) const {
    return constant_bytes + bytes[0].Of(x) + bytes[1].Of(x);
  }
};

}  // namespace twin::sim
