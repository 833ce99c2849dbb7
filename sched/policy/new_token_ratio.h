// SGLang's estimate of how much of their output limit running requests will still use.
#pragma once

#include <algorithm>
#include <cstdint>

namespace twin {

// Starts high, falls with every decode step that fits, and is set anew by a retraction. The order
// of operations is the original's, so that the doubles are, too.
class NewTokenRatio {
 public:
  NewTokenRatio(double conservativeness, double initial, double least_factor,
                std::int32_t decay_steps)
      : initial_(std::min(initial * conservativeness, 1.0)),
        least_(std::min(initial_ * least_factor, 1.0)),
        decay_((initial_ - least_) / decay_steps),
        value_(initial_) {}

  [[nodiscard]] double value() const { return value_; }
  void Reset() { value_ = initial_; }
  void Decay() { value_ = std::max(value_ - decay_, least_); }
  // After a retraction: the requests left have generated `output` of their `limits` tokens.
  void Retracted(std::int64_t output, std::int64_t limits, std::int64_t steps_ahead) {
    value_ =
        std::min(1.0, static_cast<double>(output + steps_ahead) / static_cast<double>(limits + 1));
  }

 private:
  double initial_;
  double least_;
  double decay_;
  double value_;
};

}  // namespace twin
