// Ahead of the clock: replicas go through a window of time one after the other, or several at once
// (docs/decisions/0016-replicas-one-after-the-other.md). The router gets their reports when the
// window ends.
#include <variant>

#include "sched/cluster.h"

namespace twin {

Duration Cluster::window_max() const {
  if (separates()) return Duration{0};
  const Pool& pool = pools_.front();
  return pool.reads_loads ? pool.telemetry.delay() : Duration::max();
}

std::int32_t Cluster::RouteAhead(TimePoint now, const Request& request) {
  Pool& pool = pools_.front();
  pool.received = false;  // each request is an instant of its own
  const std::int32_t replica = Choose(pool, now, request);
  if (pool.reads_loads) {
    if (ahead_.empty()) ahead_.resize(engines_.size());
    ahead_[static_cast<std::size_t>(replica)].placements.Open(request.id) = {
        .replica = replica, .prompt_left = request.prompt_tokens, .answered = false};
  }
  return replica;
}

void Cluster::HandleAhead(std::int32_t replica, std::span<const Event> events) {
  for (const Event& event : events) {
    const auto* const finished = std::get_if<StepFinished>(&event);
    if (finished != nullptr && pools_.front().reads_loads) {
      const StepPlan& plan = engine(replica).PlanOf(finished->step);
      if (plan.totals.prefill_items > 0) {
        CountPrompts(plan, ahead_[static_cast<std::size_t>(replica)].placements);
      }
      for (const ItemOutcome& outcome : finished->outcomes) {
        if (outcome.finish != FinishReason::kNone) LeaveAhead(replica, outcome.request);
      }
    }
    engine(replica).Handle(event);
  }
}

void Cluster::LeaveAhead(std::int32_t replica, RequestId id) {
  IdTable<Placement>& placements = ahead_[static_cast<std::size_t>(replica)].placements;
  const Placement* const placement = placements.Find(id);
  if (placement == nullptr) return;
  CountLeft(*placement);
  placements.Close(id);
}

const StepPlan* Cluster::PlanAhead(TimePoint now, std::int32_t replica) {
  const StepPlan* const plan = engine(replica).PlanStep(now);
  if (!pools_.front().reads_loads) return plan;
  if (plan != nullptr) {
    for (const Rejection& rejection : plan->rejected) LeaveAhead(replica, rejection.request);
    return plan;
  }
  if (CompleteReport(replica)) {
    LoadReport& report = states_[static_cast<std::size_t>(replica)].report;
    ahead_[static_cast<std::size_t>(replica)].reports.emplace_back(now, report);
    report = LoadReport{.replica = report.replica};
  }
  return nullptr;
}

void Cluster::EndWindow() {
  Telemetry& telemetry = pools_.front().telemetry;
  for (Ahead& ahead : ahead_) {
    for (const auto& [time, report] : ahead.reports) telemetry.ReportAhead(time, report);
    ahead.reports.clear();
  }
  telemetry.EndWindow();
}

}  // namespace twin
