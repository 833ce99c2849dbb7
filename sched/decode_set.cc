#include "sched/decode_set.h"

#include <algorithm>

#include "core/check.h"

namespace twin {

std::int64_t DecodeSet::StartedDecodes(const StepPlan& plan) {
  return std::ranges::count_if(plan.work, [&](const WorkItem& item) {
    return IsDecode(item) && std::ranges::find(plan.admitted, item.request) != plan.admitted.end();
  });
}

bool DecodeSet::OnlyDecodes() const {
  const auto members = static_cast<std::int64_t>(members_.size());
  for (std::size_t i = 0; i < in_flight_.size(); ++i) {
    const StepPlan& plan = *in_flight_[i].plan;
    const StepTotals& totals = plan.totals;
    if (in_flight_[i].ended > 0 || totals.decode_items != members || totals.draft_items > 0 ||
        totals.emitting_items != members || !plan.preempted.empty() || !plan.resumed.empty() ||
        !plan.admitted.empty()) {
      return false;
    }
  }
  return open_;
}

bool DecodeSet::Opens(const StepPlan& plan) {
  // All running requests are in the step, so that whoever decodes got a token.
  const bool complete = plan.running == static_cast<std::int64_t>(plan.work.size()) &&
                        plan.totals.draft_items == 0 && !plan.work.empty();
  open_ = complete && opens_next_;
  opens_next_ = complete;
  return open_;
}

void DecodeSet::Ended(RequestId id) {
  for (std::size_t i = 0; i < in_flight_.size(); ++i) {
    for (const WorkItem& item : in_flight_[i].plan->work) {
      if (item.request != id) continue;
      if (IsDecode(item)) ++in_flight_[i].ended;
      break;
    }
  }
}

void DecodeSet::Leave(RequestId id) {
  const auto found = std::find(members_.begin(), members_.end(), id);
  CHECK(found != members_.end());
  *found = members_.back();
  members_.pop_back();
}

void DecodeSet::Clear() {
  if (open_) opens_next_ = false;
  open_ = false;
  members_.clear();
}

}  // namespace twin
