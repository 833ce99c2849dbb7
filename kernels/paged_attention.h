// Attention for a batch of sequences of different lengths over a paged KV cache.
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
// Shapes    keys, values: [tokens, kv_heads * head_dim]; slots: [tokens], where a slot is block *
//           block_size + the position in the block. Tokens with a negative slot are not written.
// REQUIRES  slots lie within the cache; non-negative slots differ.
void AppendKv(ThreadPool& pool, MatrixView<const float> keys, MatrixView<const float> values,
              std::span<const std::int32_t> slots, std::int64_t layer, const KvCacheView& cache);

// As AppendKv(), into a cache whose values lie in the keys.
void AppendKeys(ThreadPool& pool, MatrixView<const float> keys, std::span<const std::int32_t> slots,
                std::int64_t layer, const KvCacheView& cache);

// The queries and contexts of a batch. Sequence s has the query rows first_query[s] to
// first_query[s + 1] - 1, which are its last tokens. With n of them and context length
// c = kv_lengths[s], query j is at position c - n + j and sees the positions up to and including
// its own. Their keys and values must be in the cache already. A sequence may have no query.
struct AttentionBatch {
  std::span<const std::int32_t> first_query;   // [sequences + 1], never decreasing
  std::span<const std::int32_t> kv_lengths;    // [sequences]; each at least its number of queries
  std::span<const std::int32_t> block_tables;  // [sequences, table_stride]
  std::int64_t table_stride = 0;               // entries per sequence
};

struct AttentionOptions {
  float scale = 1;          // factor of the scores; usually 1 / sqrt(head_dim)
  std::int64_t window = 0;  // a query sees itself and window - 1 earlier tokens; 0: all
  float logit_cap = 0;      // scores become cap * tanh(score / cap); 0: no cap
  // For each query head, a score without a key or value, which takes a share of the weights; empty:
  // none. It is neither scaled nor capped.
  std::span<const float> sinks = {};
};

// out[t, h] = sum_p softmax_p(scale * q[t, h] . k[p, h / group]) * v[p, h / group].
//
// Shapes    q: [tokens, heads * head_dim], out: [tokens, heads * value_dim()], tokens =
//           first_query.back(); heads is a multiple of kv_heads, group = heads / kv_heads.
// Aliasing  out may not be q.
// REQUIRES  head_dim <= 1024.
// Order     Scores, their exponentials and the weighted sum are fp32. The context is processed in
//           stretches of 1024 positions and, within a stretch, in chunks of 64, both counted from
//           position 0, with a running maximum. Stretches are merged in ascending order; a sink
//           comes last. Scores of heads wider than 256 are summed in pieces of 256. A row
//           therefore depends only on its query and the cache: its bits are the same as a decode
//           and in any prefill chunk, with any other sequences and any number of threads.
// Error     2e-5 relative to the largest visible |v|, against double precision on the stored k, v.
// Source    online softmax: Milakov and Gimelshein, 2018, arXiv:1805.02867; sinks: Xiao et al.,
//           2023, arXiv:2309.17453, as learned numbers.
void PagedAttention(ThreadPool& pool, MatrixView<const float> q, const AttentionBatch& batch,
                    const KvCacheView& cache, std::int64_t layer, const AttentionOptions& options,
                    MatrixView<float> out);

}  // namespace twin::kernels
