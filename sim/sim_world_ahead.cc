// Replicas that advance one after the other.
#include <cstddef>

#include "core/check.h"
#include "sim/sim_world.h"

namespace twin::sim {

std::span<const Event> SimWorld::ArrivalsBefore(TimePoint until) {
  CHECK(replicas_are_separate() && steps_.empty());
  one_by_one_ = true;
  events_.clear();
  prompt_keys_used_ = 0;
  for (const TracedRequest* arrival = source_.Peek();
       arrival != nullptr && arrival->arrival < until; arrival = source_.Peek()) {
    Announce(*arrival, Duration{0});
    source_.Take();
  }
  arrivals_.swap(events_);
  return arrivals_;
}

TimePoint SimWorld::next_arrival() {
  const TracedRequest* const arrival = source_.Peek();
  return arrival == nullptr ? kTimeNever : std::max(arrival->arrival, kTimeZero);
}

TimePoint SimWorld::next_result(std::int32_t replica) const {
  const RingQueue<Launched>& launched = replicas_[static_cast<std::size_t>(replica)].launched;
  return launched.empty() ? kTimeNever : launched.front().delivery;
}

Instant SimWorld::AdvanceReplica(std::int32_t replica, TimePoint now,
                                 std::span<const Event> arrivals) {
  now_ = now;
  events_.clear();
  RingQueue<Launched>& launched = replicas_[static_cast<std::size_t>(replica)].launched;
  while (!launched.empty() && launched.front().delivery <= now) {
    const Launched due = launched.PopFront();
    steps_.Push(due.delivery, due.step);
  }
  if (!steps_.empty()) ReturnSteps();
  events_.insert(events_.end(), arrivals.begin(), arrivals.end());
  if (events_.empty()) events_.emplace_back(WakeUp{});
  return {now_, events_};
}

}  // namespace twin::sim
