#include "record/group_meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace twin {

GroupMeter::GroupMeter(const std::vector<MeteredGroup>& groups, const ServiceGoal& goal,
                       bool boundary) {
  for (const MeteredGroup& group : groups) {
    group_of_.insert(group_of_.end(), static_cast<std::size_t>(group.replicas), groups_.size());
    groups_.push_back({.of = group, .requests = RequestMetrics(goal, boundary)});
  }
  busy_until_.assign(group_of_.size(), TimePoint::min());
}

void GroupMeter::OnStepEnded(const EndedStep& step) {
  const StepTotals& totals = step.plan.totals;
  Group& group = GroupOf(step.plan.replica);
  ++group.steps;
  // The totals count what verifies drafts as prefill.
  const std::int64_t verified = totals.draft_items + totals.draft_tokens;
  group.prefill_tokens += totals.prefill_tokens - verified;
  group.decode_tokens += totals.decode_items + verified;
  TimePoint& busy_until = busy_until_[static_cast<std::size_t>(step.plan.replica)];
  const TimePoint begin = std::max(step.started, busy_until);
  group.busy += std::max(step.finished - begin, Duration{0});
  busy_until = std::max(busy_until, step.finished);
}

void GroupMeter::OnLoad(TimePoint from, TimePoint to, const Load& /*load*/) { time_ += to - from; }

void GroupMeter::OnEnded(const RequestLife& life) {
  if (!life.measured || life.replica < 0) return;
  RequestMetrics& requests = GroupOf(life.replica).requests;
  requests.Arrive(life);
  requests.End(life);
}

void GroupMeter::Summarise(Summary& summary) const {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    const std::string prefix = fmt::format("group_{}_", i);
    const auto set = [&](const char* key, SummaryValue value) {
      summary.Set(prefix + key, std::move(value));
    };
    const double seconds = Seconds(time_) * group.of.replicas;
    set("replicas", std::int64_t{group.of.replicas});
    set("kv_blocks", std::int64_t{group.of.kv_blocks});
    set("steps", group.steps);
    set("computed_prefill_tokens", group.prefill_tokens);
    set("computed_decode_tokens", group.decode_tokens);
    set("busy_share",
        seconds > 0 ? Seconds(group.busy) / seconds : std::numeric_limits<double>::quiet_NaN());
    group.requests.SummariseCounts(summary, prefix);
    group.requests.SummariseLatencies(summary, prefix, nullptr);
  }
}

}  // namespace twin
