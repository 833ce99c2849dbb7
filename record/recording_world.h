// A world that others may watch.
#pragma once

#include <span>
#include <vector>

#include "record/run_observer.h"
#include "sched/world.h"

namespace twin {

// Passes everything on unchanged and shows it to the observers, in their order.
// Borrows the inner world and the observers; both outlive it.
class RecordingWorld : public World {
 public:
  RecordingWorld(World& inner, std::span<RunObserver* const> observers)
      : inner_(inner), observers_(observers.begin(), observers.end()) {}

  // The last instant, without events, is not shown: nothing happened.
  Instant Advance() override;
  void Launch(const StepPlan& plan) override;

 private:
  World& inner_;
  std::vector<RunObserver*> observers_;
  TimePoint now_ = kTimeZero;
};

}  // namespace twin
