#include "core/layer_count.h"

#include <algorithm>
#include <optional>

namespace twin {
namespace {

// One rank's share of an MLP of the given widths.
std::int64_t MlpParameters(const LayerSpec& l, std::int64_t outer, std::int64_t inner,
                           std::int64_t tensor) {
  const std::int64_t inputs = l.gated_mlp ? 2 : 1;
  return (inputs + 1) * outer * (inner / tensor);
}

std::int64_t MlpBiases(const LayerSpec& l, std::int64_t outer, std::int64_t inner,
                       std::int64_t tensor) {
  return (l.gated_mlp ? 2 : 1) * (inner / tensor) + outer;
}

// Index heads and index keys are on every rank.
void CountLatent(const ModelSpec& m, const LayerSpec& l, std::int64_t tensor, LayerCount& count) {
  const LatentSpec& latent = *l.latent;
  const std::int64_t hidden = m.hidden;
  const std::int64_t heads = l.query_heads / tensor;
  const std::int64_t key = latent.nope_dim + latent.rope_dim;
  const std::int64_t input = latent.query_rank > 0 ? latent.query_rank : hidden;
  count.attention = hidden * latent.query_rank + input * heads * key +
                    hidden * (latent.kv_rank + latent.rope_dim) +
                    latent.kv_rank * heads * (latent.nope_dim + latent.value_dim) +
                    heads * latent.value_dim * hidden;
  if (l.output_gate == OutputGate::kFull) count.attention += hidden * heads * latent.value_dim;
  if (l.output_gate == OutputGate::kHead) count.attention += hidden * heads;
  count.rest += latent.query_rank + latent.kv_rank;
  if (!latent.owns_index()) return;
  count.attention += std::int64_t{latent.query_rank} * latent.index_heads * latent.index_dim +
                     hidden * (latent.index_dim + latent.index_heads);
  count.rest += 2 * latent.index_dim;
}

void CountHeads(const ModelSpec& m, const LayerSpec& l, const Parallelism& p, LayerCount& count) {
  const std::int64_t hidden = m.hidden;
  const std::int64_t heads = l.query_heads / p.tensor;
  const std::int64_t kv_heads = KvHeadsPerRank(l, p);
  const std::int64_t query = heads * l.head_dim * (l.output_gate == OutputGate::kFull ? 2 : 1);
  const std::int64_t key = kv_heads * l.head_dim;
  const std::int64_t value = l.keys_are_values ? 0 : kv_heads * l.value_width();
  const std::int64_t input = l.query_rank > 0 ? l.query_rank : hidden;
  count.attention =
      input * query + hidden * (l.query_rank + key + value) + heads * l.value_width() * hidden;
  count.rest += l.query_rank;
  if (l.qkv_bias) count.rest += query + key + value;
  if (l.output_bias) count.rest += hidden;
  if (l.full_qk_norm) {
    count.rest += heads * l.head_dim + key;
  } else if (l.qk_norm) {
    count.rest += 2 * NormParameters(m, l.head_dim);
  }
  if (l.sinks) count.rest += heads;
  if (l.output_gate == OutputGate::kHead) count.attention += hidden * heads;
  if (!l.block_index) return;
  const std::int64_t index = l.block_index->dim;
  count.attention += hidden * index * (l.block_index->heads + 1);
  count.rest += 2 * index;
}

void CountRecurrent(const ModelSpec& m, const LayerSpec& l, std::int64_t tensor,
                    LayerCount& count) {
  const RecurrentSpec& r = *l.recurrent;
  const std::int64_t hidden = m.hidden;
  const std::int64_t heads = r.value_heads / tensor;
  const std::int64_t keys = std::max<std::int64_t>(1, r.key_heads / tensor) * r.key_dim;
  const std::int64_t values = heads * r.value_dim;
  switch (r.kind) {
    case RecurrentKind::kGatedDelta:
      count.recurrent = hidden * (2 * keys + 3 * values);
      count.rest +=
          2 * hidden * heads + (2 * keys + values) * r.convolution + 2 * heads + r.value_dim;
      return;
    case RecurrentKind::kKimiDelta: {
      const std::int64_t low_rank = (hidden + values) * r.value_dim;
      const std::int64_t gate = r.full_rank_gate ? hidden * values : low_rank;
      const std::int64_t decay = r.full_rank_decay ? hidden * values : low_rank;
      count.recurrent = hidden * 4 * values + decay + gate + hidden * heads;
      count.rest += 3 * values * r.convolution + heads + values + r.value_dim;
      return;
    }
    case RecurrentKind::kMamba2: {
      const std::int64_t convolved = values + 2 * keys;
      count.recurrent = hidden * (2 * values + convolved + heads);
      count.rest += convolved * (r.convolution + 1) + 3 * heads + values;
      return;
    }
    case RecurrentKind::kLightning:
      count.recurrent = hidden * 5 * values;
      count.rest += values;
      return;
  }
}

void CountMixture(const ModelSpec& m, const LayerSpec& l, std::int64_t tensor, std::int64_t experts,
                  LayerCount& count) {
  const MoeSpec& moe = l.moe;
  const std::int64_t hidden = m.hidden;
  const std::int64_t outer = moe.latent > 0 ? moe.latent : hidden;
  const std::int64_t choices = moe.experts + moe.identity_experts;
  count.experts = experts * MlpParameters(l, outer, moe.expert_intermediate, tensor);
  count.rest += hidden * choices;
  if (moe.selection_bias) count.rest += choices;
  if (moe.router_bias) count.rest += choices;
  if (moe.expert_bias || l.mlp_bias) {
    count.rest += experts * MlpBiases(l, outer, moe.expert_intermediate, tensor);
  }
  if (moe.latent > 0) count.dense += 2 * hidden * moe.latent;
  count.dense += MlpParameters(l, hidden, moe.dense_intermediate, tensor);
  if (moe.shared_intermediate == 0) return;
  count.shared = MlpParameters(l, hidden, moe.shared_intermediate, tensor);
  if (l.mlp_bias) count.rest += MlpBiases(l, hidden, moe.shared_intermediate, tensor);
  if (moe.shared_gate) count.rest += hidden;
}

}  // namespace

std::int64_t NormParameters(const ModelSpec& m, std::int64_t width) {
  return m.norm == NormKind::kLayerNorm ? 2 * width : width;
}

LayerCount CountLayer(const ModelSpec& m, const LayerSpec& l, const Parallelism& p,
                      std::int64_t experts) {
  LayerCount count;
  count.rest = l.norms_per_layer * NormParameters(m, m.hidden) + l.scales_per_layer;
  if (l.recurrent) {
    CountRecurrent(m, l, p.tensor, count);
  } else if (l.latent) {
    CountLatent(m, l, p.tensor, count);
  } else if (l.query_heads > 0) {
    CountHeads(m, l, p, count);
  }
  if (l.moe.experts > 0) {
    CountMixture(m, l, p.tensor, experts, count);
  } else if (l.intermediate > 0) {
    count.dense = MlpParameters(l, m.hidden, l.intermediate, p.tensor);
    if (l.mlp_bias) count.rest += MlpBiases(l, m.hidden, l.intermediate, p.tensor);
  }
  count.dense += l.linears * (std::int64_t{m.hidden} * m.hidden / p.tensor);
  return count;
}

double LayerBytes(const ModelSpec& m, const LayerSpec& layer, const Parallelism& p) {
  const LayerCount count = CountLayer(m, layer, p, layer.moe.experts);
  const auto bytes = [&](std::int64_t numbers, const std::optional<DType>& format) {
    return static_cast<double>(numbers) * BytesPerWeight(format.value_or(m.weight_dtype));
  };
  const bool uniform = m.groups.empty() && m.formats == WeightFormats{} && !m.is_mtp_module;
  const DType rest = uniform ? m.weight_dtype : EmbeddingFormat(m.weight_dtype);
  return bytes(count.attention, m.formats.attention) + bytes(count.recurrent, m.formats.recurrent) +
         bytes(count.dense, m.formats.dense) + bytes(count.shared, m.formats.shared) +
         bytes(count.experts, m.formats.experts) + bytes(count.rest, rest);
}

}  // namespace twin
