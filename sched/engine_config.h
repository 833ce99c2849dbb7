// The settings of an engine, and of the engines of a cluster whose replicas differ.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/kv_groups.h"
#include "sched/cache/kv_pool.h"

namespace twin {

struct EngineConfig {
  KvPoolConfig kv;
  // Plans handed out per instant; 0 = up to the policy's steps_in_flight_max.
  std::int32_t plans_per_instant_max = 0;
  // Longer prompts are rejected without being shown to the policy; 0 = no limit.
  std::int32_t prompt_tokens_max = 0;
  std::int32_t replica = 0;  // its index in a cluster (cluster.h); plans carry it
  // Checks the reasons of rejections (invariant 15): of a policy from outside the registry.
  bool checks_rejections = false;
  // The KV groups of the model; not set: its layers are equal and keep all tokens. Where these
  // NeedGroupTables, `kv.block_size` is their hash_block, and one block of any group is a block of
  // the pool.
  std::optional<KvGroups> kv_groups = {};
};

// Equal engines with consecutive replica indices.
struct EngineGroup {
  std::int32_t replicas = 1;
  EngineConfig engine;
};

// All engines of a cluster, in the order of their indices. Not empty.
using EngineGroups = std::vector<EngineGroup>;

}  // namespace twin
