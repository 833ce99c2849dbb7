#include "run/record/group_meter.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace twin {

GroupMeter::GroupMeter(const std::vector<MeteredGroup>& groups,
                       const RequestMetrics::Config& config) {
  for (const MeteredGroup& group : groups) {
    group_of_.insert(group_of_.end(), static_cast<std::size_t>(group.replicas), groups_.size());
    groups_.push_back({.of = group, .requests = RequestMetrics(config)});
  }
  replicas_.resize(group_of_.size());
}

void GroupMeter::OnStepEnded(const EndedStep& step) {
  replicas_.at(static_cast<std::size_t>(step.plan.replica)).work.Add(step);
}

StepWork GroupMeter::WorkOf(std::size_t group) const {
  StepWork sum;
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    if (group_of_[i] == group) sum += replicas_[i].work;
  }
  return sum;
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

void GroupMeter::Summarise(Summary& summary) const {
  const RateWindow window = window_.Until(until_);
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    const StepWork work = WorkOf(i);
    const std::string prefix = fmt::format("group_{}_", i);
    const auto set = [&](const char* key, SummaryValue value) {
      summary.Set(prefix + key, std::move(value));
    };
    const double seconds = Seconds(time_) * group.of.replicas;
    set("replicas", std::int64_t{group.of.replicas});
    set("kv_blocks", std::int64_t{group.of.kv_blocks});
    set("steps", work.steps);
    set("computed_prefill_tokens", work.prefill_tokens);
    set("computed_decode_tokens", work.decode_tokens);
    set("busy_share", Ratio(Seconds(work.busy.total), seconds));
    group.requests.SummariseCounts(summary, prefix, window);
    group.requests.SummariseLatencies(summary, prefix, nullptr);
  }
}

}  // namespace twin
