// Measures how the time of a step divides into parts, by laps between its operations.
#pragma once

#include <chrono>

#include "core/step_parts.h"

namespace twin::exec {

// Every nanosecond from Start() to the last Lap() belongs to exactly one part: the sum of parts is
// end() - begin(). A lap costs a read of the steady clock, about 25 ns.
class LapTimer {
 public:
  using Clock = std::chrono::steady_clock;

  void Start() {
    parts_ = {};
    begin_ = end_ = Clock::now();
  }

  // Adds the time since the last lap to `part`.
  void Lap(StepPart part) {
    const Clock::time_point now = Clock::now();
    parts_[part] += std::chrono::duration_cast<Duration>(now - end_);
    end_ = now;
  }

  [[nodiscard]] Clock::time_point begin() const { return begin_; }
  [[nodiscard]] Clock::time_point end() const { return end_; }
  [[nodiscard]] const StepParts& parts() const { return parts_; }

 private:
  Clock::time_point begin_;
  Clock::time_point end_;
  StepParts parts_;
};

}  // namespace twin::exec
