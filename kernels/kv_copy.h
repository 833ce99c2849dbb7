// Copies whole KV blocks, within a cache or between two.
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

// Copies all layers of blocks from one cache to another (swap) or within one (copy on write).
// REQUIRES: shapes are equal except for the number of blocks; ids are within their caches; no block
// is the destination of two copies; within one cache, no block is both source and destination.
void CopyBlocks(ThreadPool& pool, const KvCacheView& from, const KvCacheView& to,
                std::span<const BlockCopy> copies);

}  // namespace twin::kernels
