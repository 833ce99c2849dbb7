#include "run/record/group_meter.h"

#include <fmt/format.h>

#include "run/record/replica_meter.h"
#include "run/record/run_measurements.h"

namespace twin {

GroupMeter::GroupMeter(const std::vector<MeteredGroup>& groups,
                       const RequestMetrics::Config& config) {
  for (const MeteredGroup& group : groups) {
    group_of_.insert(group_of_.end(), static_cast<std::size_t>(group.replicas), groups_.size());
    groups_.push_back({.of = group, .requests = RequestMetrics(config)});
  }
  work_.resize(group_of_.size());
}

void GroupMeter::OnStepEnded(const EndedStep& step) {
  work_.at(static_cast<std::size_t>(step.plan.replica)).Add(step);
}

void GroupMeter::OnArrived(TimePoint now, const RequestLife& life) {
  until_ = now;
  window_.Arrive(life);
}

void GroupMeter::OnLoad(TimePoint from, TimePoint to, const Load& /*load*/) {
  time_ += to - from;
  until_ = to;
}

void GroupMeter::OnEnded(const RequestLife& life) {
  window_.End(life);
  if (life.replica < 0) return;
  RequestMetrics& requests = GroupOf(life.replica).requests;
  if (life.measured) requests.Arrive();
  requests.End(life, window_);
}

void GroupMeter::Summarise(const MetricWriter& out) const {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    StepWork work;
    for (std::size_t r = 0; r < work_.size(); ++r) {
      if (group_of_[r] == i) work += work_[r];
    }
    const LoadOverTime load{.replicas = group.of.replicas, .seconds = Seconds(time_)};
    const MetricWriter under = out.Under(fmt::format("group_{}_", i), kByGroup);
    SummariseReplicas(under, group.of.replicas);
    SummariseBlocks(under, group.of.kv_blocks);
    work.Summarise(under);
    load.Summarise(under, work.busy.total);
    group.requests.Summarise(under, window_.Until(until_));
  }
}

}  // namespace twin
