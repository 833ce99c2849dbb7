#include "sim/devices/device_work.h"

#include <algorithm>
#include <cmath>

#include "core/dtype.h"
#include "core/layer_groups.h"
#include "core/layer_work.h"
#include "sim/cost/transformer_graph.h"

namespace twin::sim {
namespace {

// Operations of a number of a weight format in units of 16 bits: 1 / 2 where the device multiplies
// it twice as fast.
double FlopShare(const HardwareSpec& hardware, DType format) {
  return std::min(1.0, PeakFlops(hardware, DType::kBf16) / PeakFlops(hardware, format));
}

// Numbers of one expert.
double ExpertParameters(const ModelSpec& model, const LayerSpec& layer) {
  return static_cast<double>(CountLayer(model, layer, {}, 1).experts);
}

// Numbers of a token between attention's products, of all ranks.
double AttentionWidth(const LayerSpec& layer) {
  if (layer.recurrent) {
    const RecurrentSpec& r = *layer.recurrent;
    return 2.0 * r.key_heads * r.key_dim + 3.0 * r.value_heads * r.value_dim;
  }
  if (layer.latent) {
    return layer.latent->query_rank + layer.latent->kv_rank +
           2.0 * layer.query_heads * (layer.head_dim + layer.value_width());
  }
  return 2.0 * (layer.query_heads + 2.0 * layer.kv_heads) * layer.head_dim;
}

double MlpWidth(const ModelSpec& model, const LayerSpec& layer) {
  const MoeSpec& moe = layer.moe;
  if (moe.experts == 0) return 3.0 * layer.intermediate;
  return 3.0 * (moe.experts_per_token * moe.expert_intermediate + moe.shared_intermediate +
                moe.dense_intermediate) +
         2.0 * moe.experts_per_token * (moe.latent > 0 ? moe.latent : model.hidden);
}

// All layers by kind.
std::vector<LayerGroup> KindsOf(const ModelSpec& model) {
  ModelSpec listed = model;
  SetLayers(OrderedLayers(model), listed);
  return StageLayerKinds(listed, {}, 0);
}

// Sum of min(keys, window) over items that read `keys` in all; exact where they read equally many.
double Bounded(double keys, double items, double window) {
  return window > 0 ? std::min(keys, items * window) : keys;
}

}  // namespace

double Joules(const EnergySpec& energy, const DeviceWork& work) {
  return energy.joules_per_byte * work.bytes + energy.joules_per_flop * work.flops +
         energy.joules_per_activation_byte * work.activation_bytes +
         energy.joules_per_routed_byte * work.routed_bytes +
         energy.joules_per_link_byte * work.link_bytes;
}

DeviceWorkModel::DeviceWorkModel(const ModelSpec& model, const HardwareSpec& hardware,
                                 const Parallelism& parallelism) {
  constexpr double kActivation = 2;
  const double ranks = parallelism.tensor;
  const auto hidden = static_cast<double>(model.hidden);
  for (std::int32_t stage = 0; stage < parallelism.pipeline; ++stage) {
    weight_bytes_ += ranks * static_cast<double>(WeightBytesPerRank(model, parallelism, stage));
  }
  const double rows = static_cast<double>(model.vocab) *
                      (model.embedding_width > 0 ? model.embedding_width : model.hidden);
  const auto embedding = static_cast<double>(ByteSize(EmbeddingFormat(model.weight_dtype)));
  const bool shared = model.tied_embeddings && parallelism.pipeline == 1;
  if (!shared) weight_bytes_ -= rows * embedding;
  double reductions = 1;
  for (const LayerGroup& group : KindsOf(model)) {
    if (group.layer.is_empty()) continue;
    kinds_.push_back(KindOf(model, hardware, parallelism, group));
    weight_bytes_ -= kinds_.back().layers * kinds_.back().expert_bytes;
    reductions += group.layers * group.layer.reductions();
  }
  head_flops_ = 2 * rows;
  token_link_bytes_ =
      kActivation * hidden * (2 * (ranks - 1) * reductions + ranks * (parallelism.pipeline - 1));
}

DeviceWorkModel::Kind DeviceWorkModel::KindOf(const ModelSpec& model, const HardwareSpec& hardware,
                                              const Parallelism& parallelism,
                                              const LayerGroup& group) const {
  constexpr double kActivation = 2;
  const LayerSpec& layer = group.layer;
  const Parallelism ranks{.tensor = parallelism.tensor};
  Kind kind;
  kind.layers = group.layers;
  kind.window = std::max(layer.sliding_window, layer.chunk);
  const double experts =
      layer.moe.experts > 0 ? layer.moe.experts_per_token * ExpertParameters(model, layer) : 0;
  ModelSpec alone = model;
  alone.mtp_layer.reset();
  SetLayers({{1, layer}}, alone);
  const double others = static_cast<double>(ActiveLayerParameters(alone)) - experts;
  const DType expert_format = FormatOfPart(model, LayerPart::kExperts);
  const DType other_format = FormatOfPart(model, LayerPart::kAttention);
  kind.token_flops = 2 * (others * FlopShare(hardware, other_format) +
                          experts * FlopShare(hardware, expert_format));
  kind.activation_bytes = kActivation * (8.0 * ranks.tensor * model.hidden + AttentionWidth(layer) +
                                         MlpWidth(model, layer));
  if (layer.moe.experts > 0) {
    kind.expert_bytes =
        layer.moe.experts * ExpertParameters(model, layer) * BytesPerWeight(expert_format);
    kind.missed_share = 1 - static_cast<double>(layer.moe.experts_per_token) / layer.moe.experts;
  }
  if (layer.recurrent) {
    const RecurrentSpec& r = *layer.recurrent;
    kind.state_bytes = ranks.tensor * static_cast<double>(FixedKvBytes(model, layer, ranks));
    constexpr double kUpdates = 8;  // decay, outer product, read: operations of a number
    kind.token_flops += kUpdates * r.value_heads * r.key_dim * r.value_dim;
    return kind;
  }
  if (layer.query_heads == 0) return kind;
  kind.entry_bytes =
      ranks.tensor *
      static_cast<double>(KvBytesPerTokenAndLayer(model, layer, ranks) + IndexBytesPerToken(layer));
  const PairFlops flops = PairFlopsOf(layer);
  kind.pair_flops = static_cast<double>(flops.prompts);
  kind.decode_flops = static_cast<double>(flops.decodes);
  return kind;
}

DeviceWork DeviceWorkModel::WorkOfStep(const StepTotals& totals,
                                       std::int64_t decode_context_tokens) const {
  const auto tokens = static_cast<double>(totals.tokens());
  DeviceWork work;
  if (tokens == 0) return work;
  const auto decodes = static_cast<double>(totals.decode_items);
  const auto decode_keys = static_cast<double>(decode_context_tokens);
  const auto chunks = static_cast<double>(totals.prefill_items);
  const auto chunk_tokens = static_cast<double>(totals.prefill_tokens);
  work.bytes = weight_bytes_;
  work.flops = head_flops_ * static_cast<double>(totals.logit_rows());
  work.link_bytes = token_link_bytes_ * tokens;
  for (const Kind& kind : kinds_) {
    double bytes = kind.entry_bytes * (tokens + Bounded(decode_keys, decodes, kind.window));
    double flops =
        kind.token_flops * tokens + kind.decode_flops * Bounded(decode_keys, decodes, kind.window);
    if (chunks > 0) {
      const double reach = kind.window > 0 ? kind.window + chunk_tokens / chunks : 0;
      bytes += kind.entry_bytes *
               Bounded(static_cast<double>(totals.prefill_context_tokens), chunks, reach);
      flops += kind.pair_flops * Bounded(static_cast<double>(totals.prefill_attention_pairs),
                                         chunk_tokens, kind.window);
    }
    bytes += 2 * kind.state_bytes * (decodes + chunks);
    if (kind.expert_bytes > 0) {
      bytes += kind.expert_bytes * (1 - std::pow(kind.missed_share, tokens));
      work.routed_bytes += kind.layers * kind.activation_bytes * tokens;
    } else {
      work.activation_bytes += kind.layers * kind.activation_bytes * tokens;
    }
    work.bytes += kind.layers * bytes;
    work.flops += kind.layers * flops;
  }
  return work;
}

}  // namespace twin::sim
