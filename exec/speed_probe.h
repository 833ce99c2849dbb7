// Fixed work that is timed repeatedly and tells how fast the machine is at a moment.
//
// A machine whose cores are shared with other virtual machines, or whose clock follows its recent
// load, has no single speed. A cost model knows the speed of the minutes in which it was measured.
// Equal fixed work is timed in the profile and in a real run: the ratio of the two times is the
// difference in speed, found without a look at any step of the run.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "exec/forwarding_backend.h"
#include "exec/lap_timer.h"

namespace twin::exec {

// Seconds of the fixed work. Products of one row are bound by memory, as in decode steps. Products
// of many rows are bound by arithmetic, as in prefills.
struct ProbeSeconds {
  double decode = 0;
  double prefill = 0;
};

class SpeedProbe {
 public:
  virtual ~SpeedProbe() = default;
  // Takes about a millisecond of the device that steps run on.
  virtual ProbeSeconds Run() = 0;
};

// When a probe is due.
struct ProbeTimes {
  // The shortest time between two probes. With it, probes delay steps by about half a percent.
  std::chrono::milliseconds interval{200};
  // The longest pause between the end of a step and a probe. After a longer pause, a probe would
  // time how threads and caches wake up, which few steps of a run do, while the steps of a profile
  // follow each other.
  std::chrono::milliseconds pause{2};
};

// Runs the probe before a step if it is due, and passes every call on.
class ProbedBackend final : public ForwardingBackend {
 public:
  // Borrows both.
  ProbedBackend(Backend& backend, SpeedProbe& probe, ProbeTimes times = {})
      : ForwardingBackend(backend), probe_(probe), times_(times) {}

  void Launch(const StepPlan& plan) override;
  ComputedStep Collect() override;

  // The results of all probes in order of time. REQUIRES: nobody drives the backend any more.
  [[nodiscard]] const std::vector<ProbeSeconds>& samples() const { return samples_; }

 private:
  SpeedProbe& probe_;
  ProbeTimes times_;
  LapTimer::Clock::time_point next_{};
  std::optional<LapTimer::Clock::time_point> collected_;  // the latest step; none so far
  std::vector<ProbeSeconds> samples_;
};

}  // namespace twin::exec
