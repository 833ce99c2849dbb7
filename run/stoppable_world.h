// A world that reports progress and stops when the caller asks for it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "run/run_control.h"
#include "sched/world.h"

namespace twin::run {

// Passes all calls on to the inner world. Once `control` asks to stop, reports that nothing more
// will happen. Borrows the inner world and the control.
class StoppableWorld final : public World {
 public:
  // `what` names the progress line. `requests` is the expected number, 0 if unknown.
  StoppableWorld(World& inner, RunControl& control, std::string what, std::uint64_t requests)
      : inner_(inner), control_(control), what_(std::move(what)), requests_(requests) {}

  Instant Advance(TimePoint wake_at) override {
    if (++instants_ >= next_check_) {
      next_check_ = instants_ + kInstantsUnchecked;
      control_.OnProgress(what_, arrived_, requests_);
      stopped_early_ = control_.StopRequested();
      if (stopped_early_) return {};
    }
    const Instant instant = inner_.Advance(wake_at);
    for (const Event& event : instant.events) {
      if (std::holds_alternative<RequestArrived>(event)) ++arrived_;
    }
    return instant;
  }

  void Continue(const StepPlan& latest, std::int64_t steps_max, StreakPart& part) override {
    inner_.Continue(latest, steps_max, part);
    instants_ += part.moments.size();
  }
  void Continued(const StreakPart& part) override { inner_.Continued(part); }
  void Launch(const StepPlan& plan) override { inner_.Launch(plan); }
  void Transfer(const KvTransfer& transfer) override { inner_.Transfer(transfer); }

  // Whether a request to stop ended the run. False if the run had ended when the request came.
  [[nodiscard]] bool stopped_early() const { return stopped_early_; }

 private:
  static constexpr std::uint64_t kInstantsUnchecked = 4096;  // between two questions to `control`

  World& inner_;
  RunControl& control_;
  std::string what_;
  std::uint64_t requests_;
  std::uint64_t instants_ = 0;
  std::uint64_t next_check_ = kInstantsUnchecked;
  std::uint64_t arrived_ = 0;
  bool stopped_early_ = false;
};

}  // namespace twin::run
