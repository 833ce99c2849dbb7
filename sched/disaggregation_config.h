// Which replicas of a cluster prefill and which decode.
#pragma once

#include <cstdint>
#include <optional>

#include "sched/route/router_config.h"

namespace twin {

// Both replicas of a request are chosen when it arrives, and replicas move between the pools
// (route/mixed_pools.h).
struct MixedPoolConfig {
  // While prompts wait at a replica, its pending tokens and those of a further prompt may be as
  // many.
  std::int32_t prompt_max_pending_batch_tokens = 8192;

  bool operator==(const MixedPoolConfig&) const = default;
};

// Replicas [0, prefill_replicas) prefill, the others decode. When these take in keys and values is
// up to their policy.
struct DisaggregationConfig {
  std::int32_t prefill_replicas = 1;
  std::int32_t decode_replicas = 1;
  RouterConfig decode_router;
  std::optional<MixedPoolConfig> mixed_pool;  // in the place of both routers

  [[nodiscard]] std::int32_t replicas() const { return prefill_replicas + decode_replicas; }
  bool operator==(const DisaggregationConfig&) const = default;
};

}  // namespace twin
