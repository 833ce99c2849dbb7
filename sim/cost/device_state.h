// The memory of a device of the steps that it has executed: how warm it is.
//
// Idea: under its power limit a device lowers its clock while it computes. Compute-bound work then
// takes longer the more of the last ~100 ms was compute-bound; the effect is a first-order memory
// of the compute-bound time, without a threshold. On an H100 recorded prefill steps of one size
// take 1.2 times as long under sustained load as after a rest.
#pragma once

#include <cmath>

#include "core/time.h"

namespace twin::sim {

// State of one device, or of devices that run in step (the ranks of a pipeline stage). Part of the
// simulated world; a cost model reads it (StepCost::StageTime) and moves it on (Advance).
struct DeviceState {
  double heat = 0;                // E in [0, 1]: 0 = rested, 1 = compute-bound for long
  TimePoint changed = kTimeZero;  // the time that `heat` belongs to
  Duration last_step{0};          // of the step that ended at `changed`

  bool operator==(const DeviceState&) const = default;
};

// The memory of a device: over an interval of `seconds` in which the share `load` of the time is
// compute-bound, heat approaches `load` with the time constant tau.
class HeatMemory {
 public:
  // REQUIRES: tau_s > 0.
  explicit HeatMemory(double tau_s) : tau_s_(tau_s) {}

  [[nodiscard]] double tau_s() const { return tau_s_; }

  // load + (heat - load) exp(-seconds / tau).
  [[nodiscard]] double After(double heat, double load, double seconds) const {
    return load + (heat - load) * std::exp(-seconds / tau_s_);
  }

  // Mean over the interval: load + (heat - load) (tau / seconds) (1 - exp(-seconds / tau)).
  [[nodiscard]] double Mean(double heat, double load, double seconds) const {
    const double x = seconds / tau_s_;
    const double share = x < 1e-9 ? 1.0 : -std::expm1(-x) / x;
    return load + (heat - load) * share;
  }

  // Heat of a device that has been idle since `state.changed`.
  [[nodiscard]] double Rested(const DeviceState& state, TimePoint now) const {
    if (state.heat == 0 || now <= state.changed) return state.heat;
    return After(state.heat, 0, Seconds(now - state.changed));
  }

 private:
  double tau_s_;
};

}  // namespace twin::sim
