// Recognises steps that compute the next token of the same requests as the step before.
#pragma once

#include <cstddef>

#include "sched/step_plan.h"

namespace twin {

// True if every running request is in the step, each with one decode that emits, and no request
// started or stopped running.
[[nodiscard]] inline bool DecodesAllRunning(const StepPlan& plan) {
  const auto items = static_cast<std::int64_t>(plan.work.size());
  return items > 0 && plan.totals.decode_items == items && plan.totals.emitting_items == items &&
         plan.running == items && plan.admitted.empty() && plan.resumed.empty() &&
         plan.preempted.empty();
}

// Finds steps that decode the same requests as the step before, perhaps in another order, so that a
// listener can count the tokens of such a batch once for all of its requests. Between two steps
// that decode all running requests, requests can only leave: an equal number means equal requests.
class UnchangedBatch {
 public:
  // True if the step decodes all running requests, as did the step before, and these are the same
  // requests. REQUIRES: called for every plan, in order.
  bool Follows(const StepPlan& plan) {
    const std::size_t before = size_;
    size_ = DecodesAllRunning(plan) ? plan.work.size() : 0;
    return size_ > 0 && size_ == before;
  }

 private:
  std::size_t size_ = 0;  // of the latest plan, if it decodes all running requests
};

}  // namespace twin
