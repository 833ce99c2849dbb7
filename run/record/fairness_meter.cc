#include "run/record/fairness_meter.h"

#include <algorithm>
#include <limits>

namespace twin {

void FairnessMeter::OnArrived(TimePoint /*now*/, const RequestLife& life) {
  Entry& entry = entries_.Open(life.id);
  entry = Entry{PositionOf(life.tenant), life.prompt_tokens, 0, true};
  ++tenants_[entry.tenant].waiting;
  Compare();
}

void FairnessMeter::OnPlanned(TimePoint /*now*/, const StepPlan& plan) {
  if (plan.preempted.empty() && plan.admitted.empty()) return;
  for (const Preemption& preemption : plan.preempted) {
    if (preemption.how == Preemption::How::kRecompute) SetWaiting(preemption.request, true);
  }
  for (const RequestId id : plan.admitted) SetWaiting(id, false);
  Compare();
}

void FairnessMeter::OnStepEnded(const EndedStep& step) {
  const ItemOutcome* outcome = step.outcomes.data();
  const ItemOutcome* const end = outcome + step.outcomes.size();
  for (const WorkItem& item : step.plan.work) {
    std::int64_t emitted = item.emits ? 1 : 0;
    if (outcome != end && outcome->request == item.request) {
      emitted = outcome->emitted_tokens;
      ++outcome;
    }
    if (!entries_.contains(item.request)) continue;
    Entry& entry = entries_[item.request];
    const std::int32_t served = std::min(item.start + item.tokens, entry.prompt_tokens);
    const std::int32_t from = std::max(item.start, entry.prompt_served);
    tenants_[entry.tenant].service +=
        config_.input_weight * std::max(0, served - from) + config_.output_weight * emitted;
    entry.prompt_served = std::max(entry.prompt_served, served);
  }
  for (const RequestId id : ended_) entries_.Close(id);
  ended_.clear();
  Compare();
}

void FairnessMeter::OnEnded(const RequestLife& life) {
  SetWaiting(life.id, false);
  ended_.push_back(life.id);
}

void FairnessMeter::Summarise(const MetricWriter& out) const {
  const std::int64_t tenants = std::ssize(tenants_);
  out.Add("tenants", tenants, "tenants", "tenants that sent requests; with metrics.by_tenant only");
  out.Add("tenants_compared", std::min(tenants, static_cast<std::int64_t>(kTenants)), "tenants",
          "tenants that max_service_difference covers: the first 32 to arrive; with "
          "metrics.by_tenant only");
  const double difference = tenants < 2 ? std::numeric_limits<double>::quiet_NaN()
                                        : static_cast<double>(largest_difference_);
  out.Add("max_service_difference", difference, "tokens",
          "largest difference in service between two tenants over any span in which both had "
          "requests waiting; with metrics.by_tenant only",
          "service = prompt tokens + 2 * output tokens");
}

std::size_t FairnessMeter::PositionOf(std::uint32_t tenant) {
  const auto [found, is_new] = positions_.try_emplace(tenant, tenants_.size());
  if (is_new) tenants_.emplace_back();
  return found->second;
}

void FairnessMeter::SetWaiting(RequestId id, bool waiting) {
  if (!entries_.contains(id)) return;
  Entry& entry = entries_[id];
  if (entry.waiting == waiting) return;
  entry.waiting = waiting;
  tenants_[entry.tenant].waiting += waiting ? 1 : -1;
}

void FairnessMeter::Compare() {
  const std::size_t compared = std::min(tenants_.size(), kTenants);
  for (std::size_t i = 0; i < compared; ++i) {
    for (std::size_t j = i + 1; j < compared; ++j) {
      Window& window = windows_[i * kTenants + j];
      if (tenants_[i].waiting == 0 || tenants_[j].waiting == 0) {
        window.open = false;
        continue;
      }
      const std::int64_t difference = tenants_[i].service - tenants_[j].service;
      if (!window.open) window = {true, difference, difference};
      window.low = std::min(window.low, difference);
      window.high = std::max(window.high, difference);
      largest_difference_ = std::max(largest_difference_, window.high - window.low);
    }
  }
}

}  // namespace twin
