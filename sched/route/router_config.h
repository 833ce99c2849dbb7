// Which router places requests on replicas, and with which parameters.
#pragma once

#include <cstdint>

#include "core/time.h"

namespace twin {

enum class RouterKind : std::uint8_t {
  kRoundRobin,      // replica k mod N for the k-th request
  kRandom,          // uniform
  kLeastRequests,   // fewest requests sent and not yet gone (join the shortest queue)
  kLeastTokens,     // fewest tokens pending: prompts not yet computed, and one token per request
                    // that has not answered (Splitwise's token JSQ)
  kLeastKv,         // fewest KV blocks held or reserved, and blocks of prompts on their way
  kPowerOfTwo,      // of two random replicas the one with fewer requests
  kSessionHash,     // the session, without one the first block of the prompt, decides
  kPrefixAffinity,  // where the longest prefix was sent before (SGLang's cache-aware router)
  kKvOverlap,       // least blocks to compute and to hold (NVIDIA Dynamo's KV router)
};

// Parameters keep the names of the original systems.
struct RouterConfig {
  RouterKind kind = RouterKind::kRoundRobin;
  // How long the news of a replica's state takes to the router. What the router has sent it knows
  // at once.
  double telemetry_delay_ms = 0;

  // kPrefixAffinity. The shortest queue is taken if the largest and the smallest number of requests
  // of a replica differ by more than balance_abs_threshold and by a factor of more than
  // balance_rel_threshold; else the replica with the longest match if it matches more than
  // cache_threshold of the prompt; else the replica with the smallest tree.
  double cache_threshold = 0.5;
  std::int32_t balance_abs_threshold = 32;
  double balance_rel_threshold = 1.1;
  // kPrefixAffinity and kKvOverlap: what the router remembers of the prompts that it sent.
  std::int64_t max_tree_size = 10'000;         // blocks per replica
  Duration eviction_interval{30'000'000'000};  // between two cuts to that size

  double overlap_weight = 1.0;  // kKvOverlap: of blocks to compute, against blocks to hold

  bool operator==(const RouterConfig&) const = default;
};

}  // namespace twin
