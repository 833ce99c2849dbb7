// One operation of a step in closed form: work, rates, and the time that follows from them.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "core/step_parts.h"
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

// Seconds of one execution = latency + max(flops / flops_per_s, bytes / bytes_per_s). A step
// executes it `count` times in sequence, and does not launch it at all if the `gate` feature is 0.
struct Operation {
  std::string name;
  StepPart part = StepPart::kOther;  // of a step's time
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
