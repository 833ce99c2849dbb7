// The waiting requests of a policy, in a configured order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/ids.h"
#include "sched/policy/fair_queue.h"
#include "sched/policy/order_config.h"
#include "sched/policy/waiting_queue.h"
#include "sched/sequence.h"

namespace twin {

class StepBuilder;

// First come, first served costs what a WaitingQueue costs. Any other order takes logarithmic time
// per call.
class OrderedQueue {
 public:
  explicit OrderedQueue(const OrderConfig& order)
      : order_(order),
        waiting_(order.first_come_first_served() ? QueueOrder::kFcfs : QueueOrder::kPriority),
        fair_(order.shares) {}

  [[nodiscard]] const OrderConfig& order() const { return order_; }
  [[nodiscard]] bool first_come_first_served() const { return order_.first_come_first_served(); }

  [[nodiscard]] bool empty() const { return waiting_.empty() && fair_.empty(); }
  [[nodiscard]] std::size_t size() const { return waiting_.size() + fair_.size(); }
  // REQUIRES: not empty.
  [[nodiscard]] RequestId front() const { return by_tenant() ? fair_.front() : waiting_.front(); }

  void PushArrival(const Sequence& s) {
    if (by_tenant()) {
      fair_.PushArrival(s);
    } else {
      waiting_.PushArrival(s.id, Key(s));
    }
  }
  void PushPreempted(const Sequence& s) {
    if (by_tenant()) {
      fair_.PushFront(s);
    } else {
      waiting_.PushPreempted(s.id, Key(s));
    }
  }
  // Undoes PopFront; of several requests, the last one that was taken out first.
  void PutBack(const Sequence& s) { PushPreempted(s); }
  // REQUIRES: not empty.
  RequestId PopFront() { return by_tenant() ? fair_.PopFront() : waiting_.PopFront(); }
  // REQUIRES: the request waits here.
  void Erase(const Sequence& s) {
    if (by_tenant()) {
      fair_.Erase(s);
    } else {
      waiting_.Erase(s.id);
    }
  }

  // First come, first served only: puts the waiting requests into the order of their priorities.
  void SortByPriority() { waiting_.SortByPriority(); }

  // Charges a request that was taken out and is admitted: the next front depends on it. NotAdmitted
  // undoes that before the request is put back.
  void Admitted(const Sequence& s) {
    if (by_tenant()) fair_.ChargeInput(s);
  }
  void NotAdmitted(const Sequence& s) {
    if (by_tenant()) fair_.RefundInput(s);
  }
  // The step is complete.
  void ChargeStep(const StepBuilder& step) {
    if (by_tenant()) ChargeOutputs(step);
  }

  // Whether a is to be served before b, both running.
  [[nodiscard]] bool Before(const Sequence& a, const Sequence& b) const {
    if (by_tenant()) return fair_.Before(a, b);
    const std::int64_t key = Key(a);
    const std::int64_t other = Key(b);
    return key != other ? key < other : a.id < b.id;
  }
  // Whether the front is to be served before a running request. A request that waits keeps its key,
  // even if tokens return for it. REQUIRES: not empty.
  [[nodiscard]] bool FrontIsBefore(const Sequence& running) const {
    const std::int64_t key = waiting_.front_priority();
    const std::int64_t other = Key(running);
    return key != other ? key < other : front() < running.id;
  }
  // Index in `running` of the request with the lowest priority in this order; with first come,
  // first served, the latest one. REQUIRES: `running` is not empty, and in order of admission.
  [[nodiscard]] std::size_t Last(const StepBuilder& step, std::span<const RequestId> running) const;

  // True if steps that only decode leave the order of all requests as it is.
  [[nodiscard]] bool OrderIsFixedWhileDecoding() const {
    return !by_tenant() && (!order_.preempts() || empty());
  }

 private:
  [[nodiscard]] std::int64_t Key(const Sequence& s) const {
    return first_come_first_served() ? s.priority : OrderKey(order_, s);
  }

  [[nodiscard]] bool by_tenant() const { return order_.kind == OrderConfig::Kind::kVtc; }
  void ChargeOutputs(const StepBuilder& step);

  OrderConfig order_;
  WaitingQueue waiting_;  // all but kVtc
  FairQueue fair_;        // kVtc
};

}  // namespace twin
