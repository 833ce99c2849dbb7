#include "exec/speed_probe.h"

namespace twin::exec {

void ProbedBackend::Launch(const StepPlan& plan) {
  if (const auto now = LapTimer::Clock::now(); now >= next_) {
    samples_.push_back(probe_.Run());
    next_ = now + kInterval;
  }
  backend_.Launch(plan);
}

}  // namespace twin::exec
