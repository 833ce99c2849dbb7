// The emulated world: the simulated world told at wall-clock time.
//
// Everything happens when the simulation says, on a clock that runs `speed` times as fast as the
// wall clock; the world waits for each of these moments and returns no earlier. Requests that other
// threads add to its source, and cancellations, become part of the simulation at the time at which
// they come.
//
// Deadlines follow from the simulation alone, not from the time of waking, so delays do not add up.
// A world that is late, because the machine was busy, tells what is overdue at once, in order and
// with the times of the simulation: decisions depend on the times told, not on the delay.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/arrival_source.h"
#include "core/ids.h"
#include "sched/world.h"
#include "sim/cost/step_cost.h"
#include "sim/world/pace.h"
#include "sim/world/sim_world.h"
#include "sim/world/wall_clock.h"

namespace twin::sim {

// Cancel(), Wake(), Stop() and now() may be called from any thread, everything else from one.
class EmulatedWorld final : public World, private Pace {
 public:
  // Borrows all arguments but the options. speed > 0: engine seconds per second of the clock.
  EmulatedWorld(ArrivalSource& source, const StepCost& cost, SimWorldOptions options,
                WallClock& clock, double speed);

  Instant Advance(TimePoint wake_at) override { return simulated_.Advance(wake_at); }
  void Launch(const StepPlan& plan) override { simulated_.Launch(plan); }
  void Transfer(const KvTransfer& transfer) override { simulated_.Transfer(transfer); }

  // Cancels a request, as if its client had closed the connection; one that has not arrived yet,
  // once it has. Has no effect if it has left. `answered`: RequestCancelled.
  void Cancel(RequestId id, bool answered);
  // The source has a new request, or has been closed.
  void Wake();
  // Ends the run: the next Advance() returns an empty instant.
  void Stop();

  // The engine's time now, by the clock.
  [[nodiscard]] TimePoint now() const;
  // True if Stop() ended the run.
  [[nodiscard]] bool stopped_early() const { return stopped_early_; }
  // How long after its time the latest instant was told, on the clock.
  [[nodiscard]] Duration lateness() const { return lateness_; }
  // Waits as this world does.
  [[nodiscard]] SimWorld& simulated() { return simulated_; }

 private:
  Turn Await(TimePoint next) override;
  // When the clock reaches the engine's time; the largest value for kTimeNever.
  [[nodiscard]] Duration ClockAt(TimePoint time) const;
  // Passes on the cancellations of requests that have arrived; false if there are none.
  bool PassCancellations();

  ArrivalSource& source_;
  WallClock& clock_;
  const double speed_;
  Duration lateness_{0};
  bool stopped_early_ = false;
  std::vector<RequestCancelled> pending_;  // of requests that have not arrived, too

  std::mutex mutex_;  // guards the three members below
  std::vector<RequestCancelled> cancelled_;
  bool news_ = false;
  bool stop_ = false;
  std::condition_variable changed_;

  SimWorld simulated_;  // the last member: it borrows this object
};

}  // namespace twin::sim
