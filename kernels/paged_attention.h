// Attention of a ragged batch over a paged KV cache.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kv_cache.h"
#include "kernels/matrix_view.h"
#include "kernels/thread_pool.h"

namespace twin::kernels {

// Writes the keys and values of packed tokens into one layer of the cache (bf16: rounded to nearest
// even).
//
// Shapes    keys, values: [tokens, kv_heads * head_dim]; slots: [tokens], block * block_size +
//           place in the block; a negative slot writes nothing.
// REQUIRES  slots lie within the cache; non-negative slots differ.
void AppendKv(ThreadPool& pool, MatrixView<const float> keys, MatrixView<const float> values,
              std::span<const std::int32_t> slots, std::int64_t layer, const KvCacheView& cache);

// Who attends to what. Sequence s has the query rows first_query[s]..first_query[s + 1] - 1, which
// are its last tokens: with n of them and context length c = kv_lengths[s], query j is at position
// c - n + j and sees the positions up to its own, whose keys and values are in the cache already.
// A sequence may have no query.
struct AttentionBatch {
  std::span<const std::int32_t> first_query;   // sequences + 1, not falling
  std::span<const std::int32_t> kv_lengths;    // sequences; at least its queries
  std::span<const std::int32_t> block_tables;  // sequences * table_stride
  std::int64_t table_stride = 0;               // entries per sequence
};

struct AttentionOptions {
  float scale = 1;          // of the scores; usually 1 / sqrt(head_dim)
  std::int64_t window = 0;  // a query sees itself and window - 1 earlier tokens; 0: all
  float logit_cap = 0;      // scores become cap * tanh(score / cap); 0: no cap
};

// out[t, h] = sum_p softmax_p(scale * q[t, h] . k[p, h / group]) * v[p, h / group].
//
// Shapes    q, out: [tokens, heads * head_dim], tokens = first_query.back(); heads is a multiple
//           of kv_heads, group = heads / kv_heads.
// Aliasing  out may not be q.
// REQUIRES  head_dim <= 256.
// Order     Scores, their exponentials and the weighted sum are fp32. The context is taken in
//           stretches of 1024 positions and, within one, chunks of 64, both counted from position
//           0, with a running maximum; stretches are merged in ascending order. So a row depends
//           on its query and the cache alone: equal bits whether it comes as a decode or inside
//           any prefill chunk, with whatever other sequences and threads.
// Error     relative to the largest |v| in sight: 2e-5 (against double over the stored k, v).
// Source    online softmax: Milakov and Gimelshein, 2018, arXiv:1805.02867.
void PagedAttention(ThreadPool& pool, MatrixView<const float> q, const AttentionBatch& batch,
                    const KvCacheView& cache, std::int64_t layer, const AttentionOptions& options,
                    MatrixView<float> out);

}  // namespace twin::kernels
