// Which replicas of a cluster prefill and which decode.
#pragma once

#include <cstdint>

#include "sched/route/router_config.h"

namespace twin {

// Replicas [0, prefill_replicas) prefill, the others decode. When these take in keys and values is
// up to their policy.
struct DisaggregationConfig {
  std::int32_t prefill_replicas = 1;
  std::int32_t decode_replicas = 1;
  RouterConfig decode_router;

  [[nodiscard]] std::int32_t replicas() const { return prefill_replicas + decode_replicas; }
  bool operator==(const DisaggregationConfig&) const = default;
};

}  // namespace twin
