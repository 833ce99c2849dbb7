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

void SummariseReplicas(const MetricWriter& out, std::int32_t replicas) {
  out.Add("replicas", replicas, "replicas",
          "replicas behind the router; with system.replicas > 1 only", "", kByGroup);
}

void ReplicaMeter::Summarise(const MetricWriter& out) const {
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
  const double seconds = Seconds(time_);
  SummariseReplicas(out, static_cast<std::int32_t>(replicas_.size()));
  out.Add("requests_imbalance", imbalance(&Replica::requests), "-",
          "how unevenly requests were placed; with system.replicas > 1 only",
          "most requests of a replica / mean over the replicas");
  out.Add("tokens_imbalance", imbalance(&Replica::tokens), "-",
          "how unevenly work was placed; with system.replicas > 1 only",
          "most charged tokens of a replica / mean over the replicas");
  out.Add("min_busy_share", Ratio(Seconds(least->busy.total), seconds), "share",
          "busy_share of the replica that was least busy; with system.replicas > 1 only");
  out.Add("max_busy_share", Ratio(Seconds(most->busy.total), seconds), "share",
          "busy_share of the replica that was most busy; with system.replicas > 1 only");
}

}  // namespace twin
