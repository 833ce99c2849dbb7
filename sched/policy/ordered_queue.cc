#include "sched/policy/ordered_queue.h"

#include "sched/step_builder.h"

namespace twin {

std::size_t OrderedQueue::Last(const StepBuilder& step, std::span<const RequestId> running) const {
  if (first_come_first_served()) return running.size() - 1;
  std::size_t last = 0;
  for (std::size_t i = 1; i < running.size(); ++i) {
    if (Before(step.sequence(running[last]), step.sequence(running[i]))) last = i;
  }
  return last;
}

}  // namespace twin
