// Clusters whose replicas go on one after the other.
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
  pool.received = false;
  const std::int32_t replica = Choose(pool, now, request);
  if (pool.reads_loads) {
    placements_.Open(request.id) = {
        .replica = replica, .prompt_left = request.prompt_tokens, .answered = false};
  }
  return replica;
}

void Cluster::HandleAhead(TimePoint now, std::int32_t replica, std::span<const Event> events) {
  for (const Event& event : events) {
    const auto* const finished = std::get_if<StepFinished>(&event);
    if (finished != nullptr && pools_.front().reads_loads) OnStepFinished(now, *finished);
    engine(replica).Handle(event);
  }
}

const StepPlan* Cluster::PlanAhead(TimePoint now, std::int32_t replica) {
  const StepPlan* const plan = engine(replica).PlanStep(now);
  if (!pools_.front().reads_loads) return plan;
  if (plan == nullptr) {
    Report(now, replica);
    return nullptr;
  }
  for (const Rejection& rejection : plan->rejected) Leave(now, rejection.request);
  return plan;
}

}  // namespace twin
