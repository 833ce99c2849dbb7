#include "sched/serve.h"

#include "sched/cluster.h"
#include "sched/engine.h"
#include "sched/world.h"

namespace twin {

void Serve(Engine& engine, World& world) {
  for (Instant instant = world.Advance(kTimeNever); !instant.events.empty();
       instant = world.Advance(engine.wake_at())) {
    for (const Event& event : instant.events) engine.Handle(event);
    while (const StepPlan* plan = engine.PlanStep(instant.now)) world.Launch(*plan);
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
