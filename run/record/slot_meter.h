// How many of the steps that pipelines can hold are in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/ring_queue.h"
#include "core/time.h"
#include "run/record/metric_writer.h"
#include "run/record/run_listener.h"
#include "run/record/summary.h"

namespace twin {

// A pipeline of S stages holds S steps, and no more than requests run. Measures, while steps with
// work are in flight, how many are, as a share of the smaller one of both numbers. A policy that
// puts all requests into one step has one in flight, and S - 1 stages wait.
//
// Memory: constant for each replica and stage. Cost: constant for each step.
class SlotMeter : public RunListener {
 public:
  // `stages`: of each replica; replicas of one stage do not count.
  explicit SlotMeter(const std::vector<std::int32_t>& stages);

  [[nodiscard]] bool takes_streaks() const override { return true; }
  void OnStepEnded(const EndedStep& step) override;

  // REQUIRES: called once, after the run.
  void Summarise(const MetricWriter& out);

 private:
  // Replicas may end steps at once, on several threads.
  struct alignas(64) Replica {
    std::int32_t stages = 1;
    std::int32_t usable = 0;    // slots that the requests running since `until` could take
    TimePoint until;            // everything before it is in the sums
    RingQueue<TimePoint> ends;  // of the steps with work that were in flight at `until`
    Duration used_time{0};      // sums over slots
    Duration usable_time{0};
  };

  static void CountUntil(Replica& replica, TimePoint time);

  std::vector<Replica> replicas_;
};

// One line for the user about a run whose steps used less than half of the slots; empty otherwise.
std::string SlotsWarning(const Summary& summary);

}  // namespace twin
