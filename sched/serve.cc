#include "sched/serve.h"

#include <cstdint>

#include "sched/cluster.h"
#include "sched/engine.h"
#include "sched/streak_part.h"
#include "sched/world.h"

namespace twin {

void Serve(Engine& engine, World& world) {
  StreakPart part;
  for (Instant instant = world.Advance(kTimeNever); !instant.events.empty();
       instant = world.Advance(engine.wake_at())) {
    for (const Event& event : instant.events) engine.Handle(event);
    while (const StepPlan* plan = engine.PlanStep(instant.now)) world.Launch(*plan);
    // Steps at which nothing else happens, as far as the world looks ahead.
    if (const std::int64_t steps = engine.StreakStepsLeft(); steps > 0) {
      part.Clear();
      world.Continue(engine.LatestPlan(), steps, part);
      if (part.moments.empty()) continue;
      engine.Continue(part);
      world.Continued(part);
    }
  }
}

void Serve(Cluster& cluster, World& world) {
  for (Instant instant = world.Advance(kTimeNever); !instant.events.empty();
       instant = world.Advance(cluster.wake_at())) {
    for (const Event& event : instant.events) cluster.Handle(instant.now, event);
    while (const StepPlan* plan = cluster.PlanStep(instant.now)) world.Launch(*plan);
    while (const KvTransfer* transfer = cluster.NextTransfer()) world.Transfer(*transfer);
  }
}

}  // namespace twin
