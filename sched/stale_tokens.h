// Which tokens of steps in flight a world drops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ids.h"
#include "core/ring_queue.h"
#include "sched/step_plan.h"

namespace twin {

// For worlds of policies with PolicyTraits::forgets_stale_tokens: what was in flight when its
// request was preempted brings no token (an outcome of 0 tokens); it will be computed again.
class StaleTokens {
 public:
  void Launched(const StepPlan& plan) {
    for (const Preemption& preemption : plan.preempted) {
      std::int32_t tokens = 0;
      for (std::size_t i = 0; i < in_flight_.size(); ++i) {
        for (const WorkItem& item : in_flight_[i]->work) {
          if (item.request == preemption.request && item.emits) ++tokens;
        }
      }
      std::erase_if(stale_, [&](const Stale& s) { return s.request == preemption.request; });
      if (tokens > 0) stale_.push_back({preemption.request, tokens});
    }
    in_flight_.PushBack(&plan);
  }

  // True if the next token of the request is to be dropped. REQUIRES: one call per emitting item of
  // the returning step, in order.
  [[nodiscard]] bool Takes(RequestId request) {
    if (stale_.empty()) [[likely]]
      return false;
    for (std::size_t i = 0; i < stale_.size(); ++i) {
      if (stale_[i].request != request) continue;
      if (--stale_[i].tokens == 0) stale_.erase(stale_.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    return false;
  }

  [[nodiscard]] bool empty() const { return stale_.empty(); }

  // The oldest step has returned.
  void Returned() { in_flight_.PopFront(); }

 private:
  struct Stale {
    RequestId request{};
    std::int32_t tokens = 0;
  };
  RingQueue<const StepPlan*> in_flight_;
  std::vector<Stale> stale_;
};

}  // namespace twin
