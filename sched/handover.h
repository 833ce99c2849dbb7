// Reports of engines to a cluster that separates prefill from decode.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.h"

namespace twin {

// A request whose prompt is computed here and which another replica decodes.
struct Handover {
  RequestId request{};
  std::int32_t known = 0;   // tokens: prompt and output
  std::int32_t tokens = 0;  // whose keys and values are held for the other replica; 0 = none are
  std::vector<BlockKey> keys;
};

// Blocks taken for the keys and values of a request that are at another replica.
struct Reservation {
  RequestId request{};
  std::int32_t start =
      0;  // tokens before it are here already; all of them: nothing is to be copied
};

}  // namespace twin
