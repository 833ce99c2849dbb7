#include "lab/replay.h"

#include <utility>

#include "record/plan_digest.h"
#include "record/recording_world.h"
#include "sched/serve.h"

namespace twin::lab {

ReplayResult ReplayDecisions(RecordSource& record, const PolicyConfig& policy,
                             const EngineConfig& engine) {
  return ReplayDecisions(record, MakePolicy(policy, engine.kv), engine);
}

ReplayResult ReplayDecisions(RecordSource& record, std::unique_ptr<Policy> policy,
                             const EngineConfig& engine_config) {
  Engine engine(engine_config, std::move(policy));
  ReplayWorld replayed(record);
  PlanDigest digest;
  RunObserver* const observers[] = {&digest};
  RecordingWorld world(replayed, observers);
  Serve(engine, world);
  return {.digest = digest.value(),
          .digest_text = digest.text(),
          .plans = digest.plans(),
          .equal_plans = replayed.equal_plans(),
          .difference = replayed.difference()};
}

}  // namespace twin::lab
