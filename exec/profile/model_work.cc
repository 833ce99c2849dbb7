#include "exec/profile/model_work.h"

#include <cmath>

#include "core/layer_groups.h"
#include "core/layer_work.h"
#include "exec/model/cache_shape.h"

namespace twin::exec {
namespace {

// Counts the stored rows, without the padding to whole panels.
std::int64_t Elements(const kernels::WeightView& view) { return view.rows * view.columns; }

}  // namespace

double ModelWork::Flops(const StepTotals& totals) const {
  const auto pairs =
      static_cast<double>(totals.prefill_attention_pairs + totals.decode_context_tokens);
  const std::int64_t weights = layer_weights + experts_per_token * expert_weights;
  return 2.0 * static_cast<double>(weights) * static_cast<double>(totals.tokens()) +
         2.0 * static_cast<double>(head_weights) * static_cast<double>(totals.logit_rows()) +
         static_cast<double>(flops_per_pair) * pairs;
}

double ModelWork::Bytes(const StepTotals& totals) const {
  const std::int64_t keys = totals.prefill_context_tokens + totals.decode_context_tokens;
  const double head = totals.emitting_items > 0 ? static_cast<double>(head_bytes) : 0;
  return static_cast<double>(layer_bytes) + head + ExpertBytes(totals.tokens()) +
         static_cast<double>(kv_bytes_per_token) * static_cast<double>(keys);
}

double ModelWork::ExpertBytes(std::int64_t tokens) const {
  if (experts == 0) return 0;
  const double missed_by_one = 1 - static_cast<double>(experts_per_token) / experts;
  const double missed = std::pow(missed_by_one, static_cast<double>(tokens));
  return static_cast<double>(expert_bytes) * experts * (1 - missed);
}

ModelWork WorkOf(const ModelSpec& model, const ModelWeights& weights, DType kv_dtype) {
  ModelWork work;
  for (const LayerWeights& layer : weights.layers) {
    for (const LinearWeights* linear : {&layer.qkv, &layer.query_up, &layer.output, &layer.up,
                                        &layer.down, &layer.router, &layer.shared_gate}) {
      work.layer_weights += Elements(linear->matrix.view());
      work.layer_bytes += linear->matrix.view().Bytes();
    }
    for (const auto& head : layer.latent_heads) {
      for (const LinearWeights* linear : {&head.key, &head.value}) {
        work.layer_weights += Elements(linear->matrix.view());
        work.layer_bytes += linear->matrix.view().Bytes();
      }
    }
    if (layer.experts.empty()) continue;
    for (const LinearWeights* linear : {&layer.experts[0].up, &layer.experts[0].down}) {
      work.expert_weights += Elements(linear->matrix.view());
      work.expert_bytes += linear->matrix.view().Bytes();
    }
  }
  if (!weights.project_in.empty()) {
    work.layer_weights += Elements(weights.project_in.matrix.view());
    work.layer_bytes += weights.project_in.matrix.view().Bytes();
  }
  work.head_weights = Elements(weights.head().matrix.view());
  work.head_bytes = weights.head().matrix.view().Bytes();
  if (!weights.project_out.empty()) {
    work.head_weights += Elements(weights.project_out.matrix.view());
    work.head_bytes += weights.project_out.matrix.view().Bytes();
  }
  for (const LayerSpec& layer : LayerList(model)) {
    if (layer.moe.experts > 0) {
      work.experts = layer.moe.experts;
      work.experts_per_token = layer.moe.experts_per_token;
    }
    work.flops_per_pair += PairFlopsOf(layer).decodes;
  }
  work.kv_bytes_per_token = CacheShapeOf(model, kv_dtype, 1, 1).BlockBytes();
  return work;
}

}  // namespace twin::exec
