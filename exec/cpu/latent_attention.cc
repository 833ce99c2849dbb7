#include "exec/cpu/latent_attention.h"

#include "exec/cpu/sized_matrix.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/norm.h"

namespace twin::exec {
void LatentAttention::Compute(ConstMatrix x, const LayerSpec& spec, const LayerWeights& weights,
                              const kernels::RopeTable& rope, const Place& place, Matrix attended) {
  const LatentSpec& latent = *spec.latent;
  const std::int64_t row = std::int64_t{latent.kv_rank} + latent.rope_dim;
  const RaggedBatch& batch = place.batch;
  LapTimer& laps = place.laps;
  const Matrix projected = Sized(projected_buffer_, x.rows, weights.qkv.matrix.view().rows);
  Multiply(x, weights.qkv, laps, projected);
  const std::int64_t before = projected.columns - row;
  const Matrix keys = projected.Columns(before, row);
  kernels::HeadRmsNorm(pool_, weights.key_norm.gain, norm_epsilon_,
                       keys.Columns(0, latent.kv_rank));
  kernels::ApplyRope(pool_, rope, batch.positions,
                     {.head_dim = row, .first = latent.kv_rank, .neighbours = rotates_neighbours_},
                     keys);
  kernels::AppendKeys(pool_, keys, batch.slots, place.layer, place.cache);

  const Matrix queries = Queries(projected.Columns(0, before), spec, weights, laps);
  kernels::ApplyRope(
      pool_, rope, batch.positions,
      {.head_dim = spec.head_dim, .first = latent.nope_dim, .neighbours = rotates_neighbours_},
      queries);
  const Matrix absorbed = AbsorbedQueries(queries, spec, weights, laps);
  const Matrix sums = Sized(sum_buffer_, x.rows, std::int64_t{spec.query_heads} * latent.kv_rank);
  laps.Lap(StepPart::kOther);
  kernels::PagedAttention(pool_, absorbed, AttentionBatchOf(batch), place.cache, place.layer,
                          attention_, sums);
  laps.Lap(StepPart::kAttention);
  for (std::int64_t head = 0; head < spec.query_heads; ++head) {
    Multiply(sums.Columns(head * latent.kv_rank, latent.kv_rank),
             weights.latent_heads[static_cast<std::size_t>(head)].value, laps,
             attended.Columns(head * latent.value_dim, latent.value_dim));
  }
}

LatentAttention::Matrix LatentAttention::Queries(ConstMatrix projected, const LayerSpec& spec,
                                                 const LayerWeights& weights, LapTimer& laps) {
  const std::int64_t width = std::int64_t{spec.query_heads} * spec.head_dim;
  const Matrix queries = Sized(query_buffer_, projected.rows, width);
  if (weights.query_up.empty()) {
    kernels::CopyPieces(pool_, projected, {.pieces = 1, .width = width}, queries);
    return queries;
  }
  // The absorbed queries are not in use yet.
  const Matrix compressed = Sized(absorbed_buffer_, projected.rows, projected.columns);
  kernels::RmsNorm(pool_, projected, weights.query_norm.gain, norm_epsilon_, compressed);
  Multiply(compressed, weights.query_up, laps, queries);
  return queries;
}

LatentAttention::Matrix LatentAttention::AbsorbedQueries(ConstMatrix queries, const LayerSpec& spec,
                                                         const LayerWeights& weights,
                                                         LapTimer& laps) {
  const LatentSpec& latent = *spec.latent;
  const std::int64_t row = std::int64_t{latent.kv_rank} + latent.rope_dim;
  const std::int64_t heads = spec.query_heads;
  const Matrix absorbed = Sized(absorbed_buffer_, queries.rows, heads * row);
  for (std::int64_t head = 0; head < heads; ++head) {
    Multiply(queries.Columns(head * spec.head_dim, latent.nope_dim),
             weights.latent_heads[static_cast<std::size_t>(head)].key, laps,
             absorbed.Columns(head * row, latent.kv_rank));
  }
  kernels::CopyPieces(
      pool_, queries.Columns(latent.nope_dim, queries.columns - latent.nope_dim),
      {.pieces = heads, .width = latent.rope_dim, .x_apart = spec.head_dim, .y_apart = row},
      absorbed.Columns(latent.kv_rank, absorbed.columns - latent.kv_rank));
  return absorbed;
}

void LatentAttention::Multiply(ConstMatrix from, const LinearWeights& linear, LapTimer& laps,
                               Matrix to) {
  laps.Lap(StepPart::kOther);
  kernels::Gemm(pool_, from, linear.matrix.view(), {.bias = linear.bias}, to);
  laps.Lap(StepPart::kGemm);
}

}  // namespace twin::exec
