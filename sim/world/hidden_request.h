// Facts about requests that the simulated world knows and engines must not see.
#pragma once

#include <cstdint>
#include <vector>

#include "core/prefix_keys.h"
#include "core/time.h"

namespace twin::sim {

// One per live request.
struct HiddenRequest {
  std::int32_t answer_tokens = 0;     // its whole output
  std::int32_t remaining_tokens = 0;  // of output
  std::int32_t block_room = 0;        // tokens until the open block is full and gets its key
  std::int32_t open_block = 0;        // number of the request's block that is being filled
  std::int32_t named_tokens = 0;      // as its content has them
  bool ends_at_limit = false;
  std::int32_t streak = 0;  // the replica whose streak it was in last
};

// Rarely used part of HiddenRequest, kept apart so that HiddenRequest fits into a cache line.
struct HiddenDetails {
  TimePoint prefill_began;            // its latest; for transfers that are sent layer by layer
  std::vector<std::uint64_t> chunks;  // borrowed by `content`
  NamedContent content;
};

}  // namespace twin::sim
