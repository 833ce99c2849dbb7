// Multi-head latent attention on the CPU.
#pragma once

#include <cstdint>

#include "exec/lap_timer.h"
#include "exec/model/model_config.h"
#include "exec/model/weights.h"
#include "exec/ragged_batch.h"
#include "kernels/aligned_buffer.h"
#include "kernels/kv_cache.h"
#include "kernels/matrix_view.h"
#include "kernels/paged_attention.h"
#include "kernels/rope.h"
#include "kernels/thread_pool.h"

namespace twin::exec {

// Computes the attention of layers of one shape. The cache has one row for a token and layer: the
// normalised compressed vector, then the rotated key. Projections from the vector to a head's keys
// and values are absorbed, in prefill as in decodes: they multiply the query and the weighted sum
// of vectors, so that all heads attend to the cached rows themselves. Prefill therefore does
// (2 kv_rank + rope_dim) / (nope_dim + rope_dim + value_dim) times the work of expanded keys and
// values for each pair of query and key, 3.4 for DeepSeek-V3, and none for expanding a prefix. A
// row's bits do not depend on how a prompt is cut into chunks.
// Source: DeepSeek-AI, 2024, arXiv:2405.04434, section 2.1.
class LatentAttention {
 public:
  using Matrix = kernels::MatrixView<float>;
  using ConstMatrix = kernels::MatrixView<const float>;

  // Copies what it needs of `model`, and borrows the pool.
  LatentAttention(const ModelConfig& model, kernels::ThreadPool& pool)
      : norm_epsilon_(model.norm_epsilon),
        attention_{.scale = model.attention_scale, .logit_cap = model.attention_cap},
        rotates_neighbours_(model.rotates_neighbours),
        pool_(pool) {}

  struct Place {
    const RaggedBatch& batch;
    const kernels::KvCacheView& cache;
    std::int64_t layer;  // of the cache
    LapTimer& laps;
  };

  // Writes the rows of x into the cache, and sets `attended` to the heads' weighted values.
  // Shapes: x [rows, hidden]; attended [rows, query_heads * value_dim].
  void Compute(ConstMatrix x, const LayerSpec& spec, const LayerWeights& weights,
               const kernels::RopeTable& rope, const Place& place, Matrix attended);

 private:
  // Returns the queries, [rows, query_heads * (nope_dim + rope_dim)], not rotated.
  Matrix Queries(ConstMatrix projected, const LayerSpec& spec, const LayerWeights& weights,
                 LapTimer& laps);
  // Returns the queries for cached rows, [rows, query_heads * (kv_rank + rope_dim)].
  Matrix AbsorbedQueries(ConstMatrix queries, const LayerSpec& spec, const LayerWeights& weights,
                         LapTimer& laps);
  void Multiply(ConstMatrix from, const LinearWeights& linear, LapTimer& laps, Matrix to);

  float norm_epsilon_;
  kernels::AttentionOptions attention_;
  bool rotates_neighbours_;
  kernels::ThreadPool& pool_;
  kernels::AlignedBuffer projected_buffer_;
  kernels::AlignedBuffer query_buffer_;
  kernels::AlignedBuffer absorbed_buffer_;
  kernels::AlignedBuffer sum_buffer_;
};

}  // namespace twin::exec
