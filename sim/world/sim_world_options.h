// Options of a simulated world, beside its arrivals and its cost model.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/time.h"
#include "sim/cost/boundary_config.h"
#include "sim/cost/step_cost.h"
#include "sim/world/acceptance.h"
#include "sim/world/kv_links.h"
#include "sim/world/pace.h"

namespace twin::sim {

// Equal replicas of a world whose replicas differ.
struct SimReplicas {
  std::int32_t count = 1;
  const StepCost* cost = nullptr;     // borrowed
  bool forgets_stale_tokens = false;  // PolicyTraits, as the next
  bool overlaps_own_steps = false;
};

struct SimWorldOptions {
  // Prompt + output tokens that the model can hold. An output ends when it reaches this length; if
  // the prompt alone reaches it, the output is one token. 0 = no limit.
  std::int32_t max_model_length = 0;
  // Tokens that a key for prefix caching stands for (KvPoolConfig::key_tokens); 0 = no keys.
  std::int32_t named_block_size = 0;
  bool forgets_stale_tokens = false;  // PolicyTraits, as the next
  bool overlaps_own_steps = false;
  // Delays between clients and engine; nullopt: requests and tokens take no time.
  std::optional<BoundaryConfig> boundary = std::nullopt;
  // Clients cancel a request that has not ended this long after they sent it; nullopt: never.
  std::optional<Duration> client_timeout = std::nullopt;
  std::uint64_t seed = 0;  // of the boundary's delays, and of acceptance
  std::int32_t replicas = 1;
  // Index of the world's only replica, if each replica has a world of its own and gets a part of
  // the requests; -1: the world has all replicas, from index 0.
  std::int32_t only_replica = -1;
  // Groups of equal replicas, if replicas differ: in the order of their indices, `replicas` in all.
  // The world's own cost model and traits are not used then. Empty: all replicas are equal.
  std::vector<SimReplicas> groups = {};
  // Speculative decoding, where the policy verifies drafts.
  std::optional<AcceptanceConfig> acceptance = std::nullopt;
  // Links between replicas, if prefill and decode are separate.
  std::optional<LinkConfig> link = std::nullopt;
  double kv_token_bytes = 0;  // keys and values of a token, of all layers and ranks
  std::int32_t kv_layers = 1;
  std::int32_t drafts_offered = 0;  // after each step; 0 if the policy assumes them
  // Requests may be cancelled from outside (SimWorld::Cancel).
  bool cancellable = false;
  Pace* pace = nullptr;  // holds the world back, which is then cancellable; borrowed
};

}  // namespace twin::sim
