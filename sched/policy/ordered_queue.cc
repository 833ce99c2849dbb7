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

// The first output token of a request comes with its prompt.
void OrderedQueue::ChargeOutputs(const StepBuilder& step) {
  for (const WorkItem& item : step.plan().work) {
    if (!item.emits) continue;
    const Sequence& s = step.sequence(item.request);
    if (item.start + item.tokens > s.prompt_tokens) fair_.ChargeOutput(s.tenant);
  }
}

}  // namespace twin
