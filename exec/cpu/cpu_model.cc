#include "exec/cpu/cpu_model.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/check.h"
#include "core/input_error.h"
#include "core/layer_groups.h"
#include "exec/cpu/cpu_executor.h"
#include "exec/cpu/cpu_operations.h"
#include "exec/cpu/sized_matrix.h"
#include "exec/model/rope.h"
#include "kernels/activation.h"
#include "kernels/elementwise.h"
#include "kernels/gated_delta.h"
#include "kernels/gemm.h"
#include "kernels/norm.h"
#include "kernels/paged_attention.h"

namespace twin::exec {
namespace {

// REQUIRES: rows without gaps.
std::span<float> ValuesOf(const kernels::MatrixView<float>& matrix) {
  CHECK(matrix.stride == matrix.columns);
  return {matrix.data, static_cast<std::size_t>(matrix.rows * matrix.columns)};
}

}  // namespace

CpuModel::CpuModel(ModelConfig config, ModelWeights weights, std::int32_t positions,
                   kernels::ThreadPool& pool, const RankLinks& links)
    : CpuModel(std::move(config), std::make_shared<const ModelWeights>(std::move(weights)),
               positions, pool, links) {}

CpuModel::CpuModel(ModelConfig config, std::shared_ptr<const ModelWeights> weights,
                   std::int32_t positions, kernels::ThreadPool& pool, const RankLinks& links)
    : config_(std::move(config)),
      share_(ShareOf(config_, links.place)),
      layers_(LayerList(share_.shape)),
      links_(links),
      weights_(std::move(weights)),
      positions_(positions),
      pool_(pool),
      mixtures_(MixturesOf(*weights_)),
      experts_(share_, pool),
      latent_(share_, pool),
      delta_(share_, *weights_, pool) {
  CHECK(positions >= 1 && positions <= config_.shape.max_position);
  CHECK(weights_->layers.size() == layers_.size());
  CHECK((links.tensor == nullptr ? 1 : links.tensor->size()) == links.place.grid.tensor);
  CHECK((links.stages == nullptr ? 1 : links.stages->size()) == links.place.grid.pipeline);
  std::int64_t cached = 0;
  for (const LayerSpec& layer : layers_) {
    cache_layers_.push_back(cached);
    if (layer.query_heads > 0) ++cached;
  }
  if (config_.shape.learned_positions == 0) {
    rope_.emplace(InverseFrequencies(config_.rope, config_.rotary_dimensions), positions,
                  config_.rope.magnitude);
  }
}

kernels::MatrixView<const float> CpuModel::Forward(const RaggedBatch& batch,
                                                   const kernels::KvCacheView& cache) {
  CHECK(cache.shape == CacheShape(cache.shape.dtype, cache.shape.blocks, cache.shape.block_size));
  SizeBuffers(batch.rows());
  const std::int32_t stage = links_.place.stage;
  if (links_.place.first_stage()) {
    Embed(batch);
  } else {
    // The stage before this one may compute for any time. The first stage limits its wait for the
    // result.
    links_.stages->Receive(std::as_writable_bytes(ValuesOf(residual_)), stage - 1,
                           Patience::kUnbounded);
    laps_.Lap(StepPart::kCommunication);
  }
  for (std::size_t i = 0; i < weights_->layers.size(); ++i) {
    const LayerWeights& layer = weights_->layers[i];
    Attend(batch, i, cache);
    AddHalf(attended_, layer.output, layer.attention_norm, layer.attention_post_norm);
    if (mixtures_.empty() || mixtures_[i].is_dense()) {
      AddHalf(ComputeMlp(i), layer.down, layer.mlp_norm, layer.mlp_post_norm);
    } else {
      AddProjected(ComputeMixture(i), layer.mlp_norm, layer.mlp_post_norm);
    }
  }
  if (links_.place.last_stage()) return Logits(batch);
  laps_.Lap(StepPart::kOther);
  links_.stages->Send(std::as_bytes(ValuesOf(residual_)), stage + 1);
  laps_.Lap(StepPart::kCommunication);
  return {};
}

void CpuModel::SizeBuffers(std::int64_t rows) {
  residual_ = Sized(residual_buffer_, rows, share_.shape.hidden);
  normed_ = Sized(normed_buffer_, rows, share_.shape.hidden);
}

void CpuModel::Embed(const RaggedBatch& batch) {
  const kernels::WeightView& table = weights_->embedding.matrix.view();
  if (weights_->project_in.empty()) {
    LookUp(batch, residual_);
  } else {
    const Matrix narrow = Sized(narrow_buffer_, batch.rows(), table.columns);
    LookUp(batch, narrow);
    Multiply(narrow, weights_->project_in, false, residual_);
  }
  if (config_.embedding_scale != 1) kernels::Scale(pool_, config_.embedding_scale, residual_);
  if (weights_->positions.empty()) return;
  table_rows_.clear();
  for (const std::int32_t position : batch.positions) {
    table_rows_.push_back(position + config_.position_offset);
  }
  kernels::AddEmbeddedRows(pool_, weights_->positions.matrix.view(), table_rows_, residual_);
}

void CpuModel::LookUp(const RaggedBatch& batch, Matrix to) {
  const kernels::WeightView& table = weights_->embedding.matrix.view();
  if (links_.tensor == nullptr) return kernels::EmbedRows(pool_, table, batch.token_ids, to);
  const IndexRange own = VocabularyOf(config_.shape, links_.place);
  table_rows_.clear();
  for (const std::int32_t token : batch.token_ids) {
    const std::int64_t row = token - own.first;
    table_rows_.push_back(row >= 0 && row < own.count ? static_cast<std::int32_t>(row) : -1);
  }
  std::vector<std::int32_t> rows = table_rows_;
  for (std::int32_t& row : rows) row = std::max(row, 0);
  kernels::EmbedRows(pool_, table, rows, to);
  for (std::size_t i = 0; i < table_rows_.size(); ++i) {
    if (table_rows_[i] >= 0) continue;
    std::fill_n(to.Row(static_cast<std::int64_t>(i)), to.columns, 0.0F);
  }
  Sum(to);
}

void CpuModel::Attend(const RaggedBatch& batch, std::size_t layer,
                      const kernels::KvCacheView& cache) {
  const LayerSpec& spec = layers_[layer];
  const LayerWeights& weights = weights_->layers[layer];
  attended_ = Sized(attended_buffer_, batch.rows(), weights.output.matrix.view().columns);
  if (spec.recurrent) {
    delta_.Compute(HalfInput(weights.attention_norm), *spec.recurrent, weights, layer, batch, laps_,
                   attended_);
  } else if (spec.latent) {
    latent_.Compute(HalfInput(weights.attention_norm), spec, weights, *rope_,
                    {batch, cache, cache_layers_[layer], laps_}, attended_);
  } else {
    AttendWithHeads(batch, layer, cache);
  }
}

void CpuModel::AttendWithHeads(const RaggedBatch& batch, std::size_t layer,
                               const kernels::KvCacheView& cache) {
  const LayerSpec& spec = layers_[layer];
  const LayerWeights& weights = weights_->layers[layer];
  const std::int64_t query_width = std::int64_t{spec.query_heads} * spec.head_dim;
  const std::int64_t key_width = std::int64_t{spec.kv_heads} * spec.head_dim;
  const bool gated = spec.output_gate == OutputGate::kFull;
  const std::int64_t projected_width = (gated ? 2 : 1) * query_width;
  const Matrix qkv = Sized(qkv_buffer_, batch.rows(), projected_width + 2 * key_width);
  Multiply(HalfInput(weights.attention_norm), weights.qkv, false, qkv);
  Matrix queries = qkv.Columns(0, query_width);
  const Matrix keys = qkv.Columns(projected_width, key_width);
  const Matrix values = qkv.Columns(projected_width + key_width, key_width);
  if (gated) {
    // Each head's query is followed by its gate.
    queries = Sized(query_buffer_, batch.rows(), query_width);
    kernels::CopyPieces(pool_, qkv,
                        {.pieces = spec.query_heads,
                         .width = spec.head_dim,
                         .x_apart = 2 * std::int64_t{spec.head_dim},
                         .y_apart = spec.head_dim},
                        queries);
  }
  NormalizeHeads(spec, weights, queries, keys);
  if (rope_ && gated) {
    kernels::ApplyRope(pool_, *rope_, batch.positions, {spec.head_dim}, queries);
    kernels::ApplyRope(pool_, *rope_, batch.positions, {spec.head_dim}, keys);
  } else if (rope_) {
    // Queries and keys are neighbours in memory, with heads of one size.
    kernels::ApplyRope(pool_, *rope_, batch.positions, {spec.head_dim},
                       qkv.Columns(0, query_width + key_width));
  }
  const std::int64_t cache_layer = cache_layers_[layer];
  kernels::AppendKv(pool_, keys, values, batch.slots, cache_layer, cache);
  laps_.Lap(StepPart::kOther);
  kernels::PagedAttention(pool_, queries, AttentionBatchOf(batch), cache, cache_layer,
                          {.scale = config_.attention_scale,
                           .window = share_.layer_windows[layer],
                           .logit_cap = config_.attention_cap,
                           .sinks = weights.sinks},
                          attended_);
  laps_.Lap(StepPart::kAttention);
  if (!gated) return;
  kernels::GateRows(pool_, qkv.Columns(spec.head_dim, projected_width - spec.head_dim),
                    spec.head_dim, 2 * std::int64_t{spec.head_dim}, attended_);
}

void CpuModel::NormalizeHeads(const LayerSpec& spec, const LayerWeights& weights, Matrix queries,
                              Matrix keys) {
  if (spec.full_qk_norm && links_.tensor != nullptr) {
    NormalizeOverRanks(weights, queries, keys);
  } else if (spec.qk_norm || spec.full_qk_norm) {
    kernels::HeadRmsNorm(pool_, weights.query_norm.gain, config_.norm_epsilon, queries);
    kernels::HeadRmsNorm(pool_, weights.key_norm.gain, config_.norm_epsilon, keys);
  }
}

void CpuModel::NormalizeOverRanks(const LayerWeights& weights, Matrix queries, Matrix keys) {
  const std::int64_t ranks = links_.place.grid.tensor;
  norm_sums_.resize(static_cast<std::size_t>(2 * queries.rows));
  const std::span<float> sums = norm_sums_;
  kernels::SumSquares(pool_, queries, 2, sums);
  kernels::SumSquares(pool_, keys, 2, sums.subspan(1));
  laps_.Lap(StepPart::kOther);
  links_.tensor->AllReduceSum(sums);
  laps_.Lap(StepPart::kCommunication);
  // Key heads that several ranks hold are counted as often, in the sums as in the width.
  kernels::NormalizeBySums(pool_, sums, 2, ranks * queries.columns, weights.query_norm.gain,
                           config_.norm_epsilon, queries);
  kernels::NormalizeBySums(pool_, sums.subspan(1), 2, ranks * keys.columns, weights.key_norm.gain,
                           config_.norm_epsilon, keys);
}

CpuModel::ConstMatrix CpuModel::ComputeMlp(std::size_t layer) {
  const LayerWeights& weights = weights_->layers[layer];
  const Matrix inner = Sized(inner_buffer_, residual_.rows, weights.up.matrix.view().rows);
  Multiply(HalfInput(weights.mlp_norm), weights.up, false, inner);
  if (!layers_[layer].gated_mlp) {
    kernels::Activate(pool_, config_.activation, inner);
    return inner;
  }
  const std::int64_t width = inner.columns / 2;
  const Matrix gate = inner.Columns(0, width);
  kernels::ActivateGated(pool_, config_.activation, gate, inner.Columns(width, width), gate);
  return gate;
}

CpuModel::Matrix CpuModel::ComputeMixture(std::size_t layer) {
  const ConstMatrix input = HalfInput(weights_->layers[layer].mlp_norm);
  laps_.Lap(StepPart::kOther);
  return experts_.Compute(input, mixtures_[layer], [this](MixturePart part) {
    laps_.Lap(IsProduct(part) ? StepPart::kGemm : StepPart::kOther);
  });
}

CpuModel::ConstMatrix CpuModel::HalfInput(const NormWeights& norm) {
  if (norm.empty() || config_.norm_placement == NormPlacement::kBehindSum) return residual_;
  Normalize(norm, residual_, normed_);
  return normed_;
}

void CpuModel::AddHalf(ConstMatrix result, const LinearWeights& projection, const NormWeights& norm,
                       const NormWeights& post_norm) {
  if (post_norm.empty() && config_.residual_scale == 1 && links_.tensor == nullptr) {
    Multiply(result, projection, true, residual_);
    if (config_.norm_placement == NormPlacement::kBehindSum) Normalize(norm, residual_, residual_);
  } else {
    Multiply(result, projection, false, normed_);
    AddProjected(normed_, norm, post_norm);
  }
}

void CpuModel::AddProjected(Matrix projected, const NormWeights& norm,
                            const NormWeights& post_norm) {
  Sum(projected);
  if (!post_norm.empty()) Normalize(post_norm, projected, projected);
  if (config_.residual_scale != 1) kernels::Scale(pool_, config_.residual_scale, projected);
  kernels::Add(pool_, projected, residual_);
  if (config_.norm_placement == NormPlacement::kBehindSum) Normalize(norm, residual_, residual_);
}

void CpuModel::Normalize(const NormWeights& norm, ConstMatrix from, Matrix to) {
  if (config_.shape.norm == NormKind::kLayerNorm) {
    kernels::LayerNorm(pool_, from, norm.gain, norm.bias, config_.norm_epsilon, to);
  } else {
    kernels::RmsNorm(pool_, from, norm.gain, config_.norm_epsilon, to);
  }
}

void CpuModel::Multiply(ConstMatrix from, const LinearWeights& linear, bool accumulate, Matrix to) {
  laps_.Lap(StepPart::kOther);
  kernels::Gemm(pool_, from, linear.matrix.view(), {.bias = linear.bias, .accumulate = accumulate},
                to);
  laps_.Lap(StepPart::kGemm);
}

void CpuModel::Sum(Matrix values) {
  if (links_.tensor == nullptr) return;
  laps_.Lap(StepPart::kOther);
  links_.tensor->AllReduceSum(ValuesOf(values));
  laps_.Lap(StepPart::kCommunication);
}

CpuModel::ConstMatrix CpuModel::Logits(const RaggedBatch& batch) {
  const auto rows = static_cast<std::int64_t>(batch.logit_rows.size());
  if (rows == 0) return {};
  // Only rows whose logits are wanted pass through the final norm and the head; normed_ is free by
  // now.
  const Matrix last = normed_.Rows(0, rows);
  kernels::GatherRows(pool_, residual_, batch.logit_rows, last);
  if (!weights_->final_norm.empty()) Normalize(weights_->final_norm, last, last);
  Matrix head_input = last;
  if (!weights_->project_out.empty()) {
    head_input = Sized(narrow_buffer_, rows, weights_->project_out.matrix.view().rows);
    Multiply(last, weights_->project_out, false, head_input);
  }
  laps_.Lap(StepPart::kOther);
  if (links_.tensor != nullptr) return GatherLogits(head_input);
  const Matrix logits = Sized(logit_buffer_, rows, config_.shape.vocab);
  kernels::Gemm(pool_, head_input, weights_->head().matrix.view(), {}, logits);
  laps_.Lap(StepPart::kGemm);
  Finish(logits);
  return logits;
}

CpuModel::ConstMatrix CpuModel::GatherLogits(ConstMatrix head_input) {
  const std::int64_t rows = head_input.rows;
  const std::int64_t ranks = links_.place.grid.tensor;
  // Shares of the vocabulary differ by at most one token: all ranks send the largest size.
  const std::int64_t width = (config_.shape.vocab + ranks - 1) / ranks;
  const Matrix padded = Sized(inner_buffer_, rows, width);
  const Matrix own = padded.Columns(0, weights_->head().matrix.view().rows);
  kernels::Gemm(pool_, head_input, weights_->head().matrix.view(), {}, own);
  laps_.Lap(StepPart::kGemm);
  Finish(own);
  laps_.Lap(StepPart::kOther);
  const std::int64_t share = rows * width;
  gathered_.resize(static_cast<std::size_t>(share * ranks));
  links_.tensor->AllGather(std::as_bytes(ValuesOf(padded)),
                           std::as_writable_bytes(std::span(gathered_)));
  laps_.Lap(StepPart::kCommunication);
  const Matrix logits = Sized(logit_buffer_, rows, config_.shape.vocab);
  GridPlace place = links_.place;
  for (place.tensor_rank = 0; place.tensor_rank < ranks; ++place.tensor_rank) {
    const IndexRange tokens = VocabularyOf(config_.shape, place);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::copy_n(gathered_.data() + place.tensor_rank * share + row * width, tokens.count,
                  logits.Row(row) + tokens.first);
    }
  }
  return logits;
}

void CpuModel::Finish(Matrix logits) {
  if (config_.logit_scale != 1) kernels::Scale(pool_, config_.logit_scale, logits);
  if (config_.logit_cap > 0) kernels::SoftCap(pool_, config_.logit_cap, logits);
}

std::unique_ptr<DeviceModel> CpuModel::WithSameWeights(kernels::ThreadPool& pool) const {
  return std::make_unique<CpuModel>(config_, weights_, positions_, pool, links_);
}

std::unique_ptr<Executor> CpuModel::MakeExecutor(const ExecutorConfig& config) {
  return std::make_unique<CpuExecutor>(*this, config);
}

std::unique_ptr<Operations> CpuModel::MakeOperations(const kernels::KvCacheView& cache) {
  if (!HasPlainLayers(config_.shape)) {
    throw InputError(InputError::Kind::kUsage, "model " + config_.shape.name,
                     "has layers that differ, or another attention than plain, whose operations "
                     "are not measured; allowed: run or generate it");
  }
  return std::make_unique<CpuOperations>(config_, MatricesOf(*weights_), positions_, cache, pool_);
}

ModelWork CpuModel::WorkWith(DType kv_dtype) const {
  return WorkOf(config_.shape, *weights_, kv_dtype);
}

}  // namespace twin::exec
