// Measures how late an emulated world delivered the ends of steps.
#pragma once

#include <cstdint>

#include "core/sketch.h"
#include "run/record/run_listener.h"
#include "run/record/run_measurements.h"
#include "sim/world/emulated_world.h"

namespace twin::run {

// Borrows the world.
class LatenessMeter final : public RunListener {
 public:
  LatenessMeter(const sim::EmulatedWorld& world, double speed) : world_(world), speed_(speed) {}

  void OnStepEnded(const EndedStep& step) override {
    const Duration lateness = world_.lateness();
    lateness_.Insert(lateness.count());
    const Duration took = step.finished - step.planned;
    if (static_cast<double>(lateness.count()) * speed_ > static_cast<double>(took.count())) ++late_;
  }

  // Steps that were delivered later than one step's length after their time.
  [[nodiscard]] std::int64_t late_steps() const { return late_; }

  void Summarise(const MetricWriter& out) const { SummariseLateness(out, late_, lateness_); }

 private:
  const sim::EmulatedWorld& world_;
  double speed_;
  Sketch lateness_;  // nanoseconds of the clock
  std::int64_t late_ = 0;
};

}  // namespace twin::run
