#include "sched/serve.h"

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

}  // namespace twin
