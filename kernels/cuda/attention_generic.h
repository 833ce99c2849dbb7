// Own kernel for paged attention on a device; supports shapes that FlashInfer does not.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention.h"

namespace twin::kernels::cuda {

// out = attention of q over `layer`, as PagedAttention::Run of attention.h, but without a plan.
//
// Shapes    q, out: [rows, heads * head_dim] with at least `rows` rows and any row stride; head_dim
//           is even and at most 512; kv_heads divides heads.
// Padding   Rows after the last query of the `device` arrays are set to zero, and so are the rows
//           of sequences without pages. A captured launch can therefore have spare rows.
// Aliasing  out must not overlap q.
// Order     Computes in fp32. The warps of a block take chunks of 32 positions in turn, each warp
//           with a running maximum (online softmax), and are merged in warp order. A row's result
//           depends only on its query and the cache.
// Cost      Reads the keys and values of a row's context once per 8 query heads of a kv head (per 4
//           if head_dim is above 128, per 2 above 256), and again for every row. Meant for decodes,
//           small models, and as a reference in tests; not for long prompts.
void GenericAttention(StreamView stream, DeviceMatrix q, const AttentionArrays& device,
                      std::int64_t sequences, std::int64_t rows, const AttentionShape& shape,
                      const KvCacheView& cache, std::int64_t layer, std::int64_t window,
                      DeviceMatrix out);

}  // namespace twin::kernels::cuda
