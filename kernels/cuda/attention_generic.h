// Attention over a paged KV cache on a device, for every shape: our own kernel.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention.h"

namespace twin::kernels::cuda {

// out = attention of q over `layer`, as PagedAttention::Run of attention.h; needs no plan.
//
// Shapes    q: `rows` rows or more, [rows, heads * head_dim], of any stride; out likewise; head_dim
//           even and at most 512; kv_heads divides heads.
// Padding   rows behind the last query of the `device` arrays become zero, and so do the rows of a
//           sequence without pages: what a captured launch of more rows has spare.
// Aliasing  out may not be q.
// Order     fp32 throughout. Chunks of 32 positions are dealt to the warps of a block in turn, each
//           with a running maximum, and merged in the order of warps: a row depends on its query
//           and the cache alone.
// Cost      reads the keys and values of a row's context once for every 8 query heads of a kv head
//           (4 of head_dim above 128, 2 above 256), and again for every row: meant for decodes,
//           small models and as a second opinion, not for long prompts.
void GenericAttention(StreamView stream, DeviceMatrix q, const AttentionArrays& device,
                      std::int64_t sequences, std::int64_t rows, const AttentionShape& shape,
                      const KvCacheView& cache, std::int64_t layer, std::int64_t window,
                      DeviceMatrix out);

}  // namespace twin::kernels::cuda
