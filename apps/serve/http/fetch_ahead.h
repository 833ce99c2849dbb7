// Asks the processor for memory that is needed soon.
#pragma once

#include <cstddef>

namespace twin::serve {

inline constexpr std::size_t kCacheLineBytes = 64;

// Never faults. Costs next to nothing if the memory is in a cache.
inline void FetchAhead(const void* memory, std::size_t bytes) {
  const char* const begin = static_cast<const char*>(memory);
  for (std::size_t i = 0; i < bytes; i += kCacheLineBytes) __builtin_prefetch(begin + i);
}

}  // namespace twin::serve
