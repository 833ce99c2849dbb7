// A world that shows everything that passes through it to observers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "run/record/run_observer.h"
#include "sched/world.h"

namespace twin {

// Decorates another world: forwards every call unchanged and notifies the observers in their order.
// Borrows the inner world and the observers, which must outlive it.
class RecordingWorld : public World {
 public:
  RecordingWorld(World& inner, std::span<RunObserver* const> observers)
      : inner_(inner),
        observers_(observers.begin(), observers.end()),
        takes_streaks_(std::ranges::all_of(observers_, &RunObserver::takes_streaks)) {}

  // Observers do not see the last instant, which has no events.
  Instant Advance(TimePoint wake_at) override;
  // Only if all observers take streaks.
  void Continue(const StepPlan& latest, std::int64_t steps_max, StreakPart& part) override;
  void Continued(const StreakPart& part) override;
  void Launch(const StepPlan& plan) override;
  void Transfer(const KvTransfer& transfer) override;

 private:
  World& inner_;
  std::vector<RunObserver*> observers_;
  bool takes_streaks_;
  TimePoint now_ = kTimeZero;
};

}  // namespace twin
