// The KV blocks of one sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.h"

namespace twin {

// Only KvPool changes it. Position p of the sequence lies in device[p / block_size].
struct BlockTable {
  std::int32_t capacity_tokens = 0;   // size of the device blocks
  std::int32_t reserved_blocks = 0;   // reserved for this sequence, not yet taken
  std::int32_t published_tokens = 0;  // size of the leading device blocks that are published
  std::vector<BlockId> device;
  std::vector<BlockId> host;  // while swapped out; then `device` is empty

  [[nodiscard]] std::int32_t held() const { return static_cast<std::int32_t>(device.size()); }
};

}  // namespace twin
