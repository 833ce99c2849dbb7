// Copies of whole KV blocks within a device. CPU twin: kernels/kv_copy.h.
#pragma once

#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/kv_cache.h"
#include "kernels/kv_copy.h"

namespace twin::kernels::cuda {

// Copies blocks as CopyBlocks() of kernels/kv_copy.h does, within one cache or between two caches
// of the device; used for copy on write. `copies` [count] is in device memory. Cost: moves 2 *
// count * BlockBytes() at memory bandwidth.
void CopyBlocks(StreamView stream, const KvCacheView& from, const KvCacheView& to,
                const BlockCopy* copies, std::int64_t count);

}  // namespace twin::kernels::cuda
