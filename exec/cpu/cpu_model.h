// A decoder-only transformer on the CPU, or one rank's share of it: tokens in, logits out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "exec/cpu/expert_mixture.h"
#include "exec/cpu/gated_delta.h"
#include "exec/cpu/latent_attention.h"
#include "exec/device_model.h"
#include "exec/lap_timer.h"
#include "exec/model/model_config.h"
#include "exec/model/model_share.h"
#include "exec/model/weights.h"
#include "exec/ragged_batch.h"
#include "kernels/aligned_buffer.h"
#include "kernels/kv_cache.h"
#include "kernels/matrix_view.h"
#include "kernels/rope.h"
#include "kernels/thread_pool.h"

namespace twin::exec {

// Layers may differ in kind. Activations are fp32. A row's result depends on its sequence's tokens
// and the cache alone: its bits are equal however prompts are cut into chunks, whatever shares the
// batch, on any number of threads. One caller at a time.
//
// Each rank of a grid has a model and calls Forward() with equal batches. The ranks of a stage sum
// the products of both halves of every layer, and the embedding: 2 * layers + 1 all-reduces, then
// an all-gather of the logits. Every rank of a stage sends the whole activations to its rank of the
// next stage.
class CpuModel final : public DeviceModel {
 public:
  // Borrows the pool for its lifetime. `positions` is the length of the longest sequence; models
  // with rotary positions keep a table of that length. The configuration is the whole model's, the
  // weights are the share of the rank's place. REQUIRES: 1 <= positions <= max_position.
  CpuModel(ModelConfig config, ModelWeights weights, std::int32_t positions,
           kernels::ThreadPool& pool, const RankLinks& links = {});
  // Shares the weights with other models, which may compute with them at the same time.
  CpuModel(ModelConfig config, std::shared_ptr<const ModelWeights> weights, std::int32_t positions,
           kernels::ThreadPool& pool, const RankLinks& links = {});

  // Computes the batch and writes its keys and values into the cache. Returns the logits of
  // batch.logit_rows, [logit rows, vocab], valid until the next call; no rows if this is not the
  // last stage. laps() then has the time by part. Only the first stage reads the token ids.
  // REQUIRES: a cache of this model's shape; token ids below vocab; positions below `positions`;
  // states of the batch's items, if StateFloats() is not 0.
  // Throws CommunicationError.
  kernels::MatrixView<const float> Forward(const RaggedBatch& batch,
                                           const kernels::KvCacheView& cache);

  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] const RankLinks& links() const override { return links_; }
  [[nodiscard]] std::int32_t positions() const override { return positions_; }
  [[nodiscard]] const ModelConfig& share() const override { return share_; }
  std::unique_ptr<DeviceModel> WithSameWeights(kernels::ThreadPool& pool) const override;
  std::unique_ptr<Executor> MakeExecutor(const ExecutorConfig& config) override;
  std::unique_ptr<Operations> MakeOperations(const kernels::KvCacheView& cache) override;
  std::unique_ptr<SpeedProbe> MakeSpeedProbe() override;
  [[nodiscard]] ModelWork WorkWith(DType kv_dtype) const override;

  [[nodiscard]] kernels::ThreadPool& pool() const { return pool_; }
  // The numbers of a sequence's states in this rank's layers; 0 = none.
  [[nodiscard]] std::int64_t StateFloats() const { return delta_.StateFloats(); }
  // The time of Forward() by part. The caller of Forward() starts and reads it.
  [[nodiscard]] LapTimer& laps() { return laps_; }

 private:
  using Matrix = kernels::MatrixView<float>;
  using ConstMatrix = kernels::MatrixView<const float>;

  void SizeBuffers(std::int64_t rows);
  void Embed(const RaggedBatch& batch);
  // Looks up the rows of the embedding that this rank has, with zeros for the rows of other ranks,
  // and sums over the ranks.
  void LookUp(const RaggedBatch& batch, Matrix to);
  // Computes the first half of a layer up to its output projection; the result is in attended_.
  void Attend(const RaggedBatch& batch, std::size_t layer, const kernels::KvCacheView& cache);
  void AttendWithHeads(const RaggedBatch& batch, std::size_t layer,
                       const kernels::KvCacheView& cache);
  // Normalises queries and keys, by heads or over the heads of all ranks.
  void NormalizeHeads(const LayerSpec& spec, const LayerWeights& weights, Matrix queries,
                      Matrix keys);
  void NormalizeOverRanks(const LayerWeights& weights, Matrix queries, Matrix keys);
  // Computes the second half of a layer up to its output projection; returns the
  // result.
  ConstMatrix ComputeMlp(std::size_t layer);
  // The input of half a layer: the residual stream, normalised if norms come first.
  ConstMatrix HalfInput(const NormWeights& norm);
  // Computes the second half of a layer with a mixture of experts, projection included.
  Matrix ComputeMixture(std::size_t layer);
  // Projects the result of half a layer and adds it to the residual stream, with the norms that
  // follow.
  void AddHalf(ConstMatrix result, const LinearWeights& projection, const NormWeights& norm,
               const NormWeights& post_norm);
  // Adds a projected result, summed over the ranks, to the residual stream. Overwrites it.
  void AddProjected(Matrix projected, const NormWeights& norm, const NormWeights& post_norm);
  void Normalize(const NormWeights& norm, ConstMatrix from, Matrix to);
  void Multiply(ConstMatrix from, const LinearWeights& linear, bool accumulate, Matrix to);
  ConstMatrix Logits(const RaggedBatch& batch);
  // Computes the logits of this rank's part of the vocabulary, and gathers the parts of all ranks.
  ConstMatrix GatherLogits(ConstMatrix head_input);
  void Finish(Matrix logits);
  // Sums `values` over the ranks of the stage.
  void Sum(Matrix values);

  ModelConfig config_;
  ModelConfig share_;              // the part that this rank computes
  std::vector<LayerSpec> layers_;  // of the share
  RankLinks links_;
  std::shared_ptr<const ModelWeights> weights_;
  std::int32_t positions_;
  kernels::ThreadPool& pool_;
  std::optional<kernels::RopeTable> rope_;
  LapTimer laps_;
  std::vector<MixtureMatrices> mixtures_;  // by layer; empty if all MLPs are dense
  ExpertMixture experts_;
  LatentAttention latent_;
  GatedDelta delta_;
  std::vector<std::int64_t> cache_layers_;  // by layer: its place in the cache
  std::vector<float> norm_sums_;            // of queries and keys, by row

  // Activations of one pass, by row; the buffers grow to the largest one. The width of attended_
  // is that of the layer being computed.
  kernels::AlignedBuffer residual_buffer_;
  kernels::AlignedBuffer normed_buffer_;
  kernels::AlignedBuffer qkv_buffer_;
  kernels::AlignedBuffer query_buffer_;
  kernels::AlignedBuffer attended_buffer_;
  kernels::AlignedBuffer inner_buffer_;
  kernels::AlignedBuffer narrow_buffer_;
  kernels::AlignedBuffer logit_buffer_;
  Matrix residual_;
  Matrix normed_;
  Matrix attended_;
  std::vector<std::int32_t> table_rows_;  // of the position table, or of this rank's embedding
  std::vector<float> gathered_;           // logits, rank by rank
};

}  // namespace twin::exec
