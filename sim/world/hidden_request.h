// Facts about requests that the simulated world knows and engines must not see.
#pragma once

#include <cstdint>
#include <vector>

#include "core/prefix_keys.h"
#include "core/time.h"

namespace twin::sim {

// One per live request. Fits into a cache line together with its id.
struct HiddenRequest {
  std::int32_t answer_tokens = 0;     // its whole output
  std::int32_t remaining_tokens = 0;  // of output
  std::int32_t block_room = 0;        // tokens until the open block is full and gets its key
  std::int32_t open_block = 0;        // number of the request's block that is being filled
  std::int32_t named_tokens = 0;      // as its content has them
  std::int32_t replica = 0;           // the one that admitted it last
  bool ends_at_limit = false;
  // While it is a member of its replica's DecodeSet, `remaining_tokens` and `block_room` are those
  // of the time when it joined.
  bool in_decode_set = false;
  std::int32_t place = 0;      // in the work of a step of the set, the latest if nobody has left
  std::int32_t fill_tick = 0;  // the tick at which its open block gets full
  std::int64_t joined = 0;     // the steps of the set when it joined
  [[nodiscard]] std::int64_t last_step() const { return joined + remaining_tokens; }
};

// Rarely used part of HiddenRequest, kept apart so that HiddenRequest fits into a cache line.
struct HiddenDetails {
  TimePoint prefill_began;            // its latest; for transfers that are sent layer by layer
  std::vector<std::uint64_t> chunks;  // borrowed by `content`
  NamedContent content;
};

}  // namespace twin::sim
