// A recorded run, decided by a fresh engine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "proto/experiment_config.h"
#include "record/record_source.h"
#include "record/replay_world.h"
#include "sched/engine.h"

namespace twin::lab {

struct DecidedAgain {
  std::uint64_t digest = 0;  // of what was decided now
  std::string digest_text;
  std::uint64_t plans = 0;
  std::uint64_t equal_plans = 0;
  std::optional<ReplayDifference> difference;
};

// Tells a new engine of this policy what the record says happened, until it decides otherwise.
DecidedAgain DecideAgain(RecordSource& record, const PolicyConfig& policy,
                         const EngineConfig& engine);

}  // namespace twin::lab
