// The engines of a cluster whose replicas differ.
#pragma once

#include <cstdint>
#include <vector>

#include "sched/engine.h"

namespace twin {

// Equal engines with consecutive replica indices.
struct EngineGroup {
  std::int32_t replicas = 1;
  EngineConfig engine;
};

// All engines of a cluster, in the order of their indices. Not empty.
using EngineGroups = std::vector<EngineGroup>;

}  // namespace twin
