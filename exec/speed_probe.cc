#include "exec/speed_probe.h"

namespace twin::exec {

void ProbedBackend::Launch(const StepPlan& plan) {
  const auto now = LapTimer::Clock::now();
  if (now >= next_ && collected_ && now - *collected_ <= times_.pause) {
    samples_.push_back(probe_.Run());
    next_ = now + times_.interval;
  }
  ForwardingBackend::Launch(plan);
}

ComputedStep ProbedBackend::Collect() {
  ComputedStep step = ForwardingBackend::Collect();
  collected_ = LapTimer::Clock::now();
  return step;
}

}  // namespace twin::exec
