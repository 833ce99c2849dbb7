// Which replicas of a cluster prefill and which decode.
#pragma once

#include <cstdint>
#include <optional>

#include "sched/route/router_config.h"

namespace twin {

// Both replicas of a request are chosen when it arrives, and replicas move between the pools
// (route/mixed_pools.h).
struct MixedPoolConfig {
  // While prompts wait at a replica, its pending tokens and the tokens of a further prompt may be
  // this many together.
  std::int32_t prompt_max_pending_batch_tokens = 8192;

  bool operator==(const MixedPoolConfig&) const = default;
};

// Replicas [0, prefill_replicas) prefill, the replicas after them decode. The decoding replicas'
// policy says when they take in keys and values.
struct DisaggregationConfig {
  std::int32_t prefill_replicas = 1;
  std::int32_t decode_replicas = 1;
  RouterConfig decode_router;
  std::optional<MixedPoolConfig> mixed_pool;  // in the place of both routers

  [[nodiscard]] std::int32_t replicas() const { return prefill_replicas + decode_replicas; }
  bool operator==(const DisaggregationConfig&) const = default;
};

}  // namespace twin
