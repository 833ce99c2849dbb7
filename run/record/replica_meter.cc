#include "run/record/replica_meter.h"

#include <algorithm>

namespace twin {
void ReplicaMeter::OnStepEnded(const EndedStep& step) {
  Replica& replica = replicas_.at(static_cast<std::size_t>(step.plan.replica));
  replica.tokens += step.plan.totals.tokens();
  replica.busy.Add(step);
}

void ReplicaMeter::OnLoad(TimePoint from, TimePoint to, const Load& /*load*/) {
  time_ += to - from;
}

void ReplicaMeter::OnEnded(const RequestLife& life) {
  if (life.replica >= 0) ++replicas_.at(static_cast<std::size_t>(life.replica)).requests;
}

void ReplicaMeter::Summarise(Summary& summary) const {
  const auto imbalance = [this](std::int64_t Replica::*member) {
    std::int64_t sum = 0;
    std::int64_t most = 0;
    for (const Replica& replica : replicas_) {
      sum += replica.*member;
      most = std::max(most, replica.*member);
    }
    return Ratio(static_cast<double>(most) * static_cast<double>(replicas_.size()), sum);
  };
  const auto [least, most] = std::minmax_element(
      replicas_.begin(), replicas_.end(),
      [](const Replica& a, const Replica& b) { return a.busy.total < b.busy.total; });
  summary.Set("replicas", static_cast<std::int64_t>(replicas_.size()));
  summary.Set("requests_imbalance", imbalance(&Replica::requests));
  summary.Set("tokens_imbalance", imbalance(&Replica::tokens));
  summary.Set("min_busy_share", Ratio(Seconds(least->busy.total), Seconds(time_)));
  summary.Set("max_busy_share", Ratio(Seconds(most->busy.total), Seconds(time_)));
}

}  // namespace twin
