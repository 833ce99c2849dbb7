// Copies of whole KV blocks.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kv_cache.h"
#include "kernels/thread_pool.h"

namespace twin::kernels {

struct BlockCopy {
  std::int32_t source = 0;
  std::int32_t destination = 0;
};

// Copies blocks, all layers, from one cache to another (swap) or within one (copy on write).
// REQUIRES: equal shapes but for the number of blocks; ids within their caches; no block is the
// destination of two copies, and none both a source and a destination within the same cache.
void CopyBlocks(ThreadPool& pool, const KvCacheView& from, const KvCacheView& to,
                std::span<const BlockCopy> copies);

}  // namespace twin::kernels
