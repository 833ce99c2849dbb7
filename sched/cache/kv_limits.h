// The largest KV cache that anything here is built for.
#pragma once

#include <cstdint>

namespace twin {

// Blocks of a replica. Their bookkeeping alone takes gigabytes: more come from a wrong size, or
// from a record that was changed.
inline constexpr std::int32_t kKvBlocksMax = 100'000'000;

}  // namespace twin
