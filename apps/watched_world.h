// A world that shows progress and can be asked to stop.
#pragma once

#include <cstdint>

#include "apps/interrupt.h"
#include "apps/progress.h"
#include "sched/world.h"

namespace twin::apps {

// Passes everything on; after an interrupt it tells that nothing more will happen.
// Borrows the inner world and the progress line.
class WatchedWorld final : public World {
 public:
  WatchedWorld(World& inner, Progress& progress) : inner_(inner), progress_(progress) {}

  Instant Advance() override {
    if ((++instants_ & kMask) == 0) {
      progress_.Show(arrived_);
      stopped_early_ = InterruptGuard::interrupted();
      if (stopped_early_) return {};
    }
    const Instant instant = inner_.Advance();
    for (const Event& event : instant.events) {
      if (std::holds_alternative<RequestArrived>(event)) ++arrived_;
    }
    return instant;
  }

  void Launch(const StepPlan& plan) override { inner_.Launch(plan); }

  // An interrupt ended the run; one that comes when nothing more would have happened does not.
  [[nodiscard]] bool stopped_early() const { return stopped_early_; }

 private:
  static constexpr std::uint64_t kMask = 0xFFF;  // looks up every 4096 instants

  World& inner_;
  Progress& progress_;
  std::uint64_t instants_ = 0;
  std::uint64_t arrived_ = 0;
  bool stopped_early_ = false;
};

}  // namespace twin::apps
