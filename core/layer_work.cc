#include "core/layer_work.h"

#include <algorithm>
#include <optional>

#include "core/layer_groups.h"

namespace twin {
namespace {

class ProductList {
 public:
  ProductList(const ModelSpec& model, const LayerSpec& layer, const Parallelism& parallelism)
      : layer_(layer),
        parallelism_(parallelism),
        hidden_(model.hidden),
        tensor_(parallelism.tensor) {}

  std::vector<LayerProduct> Build() {
    if (layer_.recurrent) {
      AddRecurrent(*layer_.recurrent);
    } else if (layer_.latent) {
      AddLatent(*layer_.latent);
    } else if (layer_.query_heads > 0) {
      AddHeads();
    }
    if (layer_.moe.experts > 0) {
      AddMixture();
    } else {
      AddMlp(LayerPart::kDense, hidden_, layer_.intermediate);
    }
    for (std::int32_t i = 0; i < layer_.linears; ++i) {
      Add(LayerPart::kDense, ProductRole::kLinear, hidden_, hidden_ / tensor_);
    }
    return std::move(products_);
  }

 private:
  void Add(LayerPart part, ProductRole role, std::int64_t inputs, std::int64_t outputs) {
    products_.push_back({part, role, inputs, outputs});
  }
  void AddAttention(ProductRole role, std::int64_t inputs, std::int64_t outputs) {
    Add(LayerPart::kAttention, role, inputs, outputs);
  }

  // Index heads and index keys are on every rank.
  void AddHeads() {
    const std::int64_t heads = layer_.query_heads / tensor_;
    const std::int64_t kv_heads = KvHeadsPerRank(layer_, parallelism_);
    const std::int64_t value = layer_.keys_are_values ? 0 : layer_.value_width();
    const std::int64_t query = heads * layer_.head_dim;
    const std::int64_t gates = layer_.output_gate == OutputGate::kFull ? query : 0;
    const std::int64_t kv = kv_heads * (layer_.head_dim + value);
    if (layer_.query_rank > 0) {
      AddAttention(ProductRole::kInput, hidden_, layer_.query_rank + kv);
      AddAttention(ProductRole::kInput, layer_.query_rank, query + gates);
    } else {
      AddAttention(ProductRole::kInput, hidden_, query + gates + kv);
    }
    if (layer_.output_gate == OutputGate::kHead) AddAttention(ProductRole::kGate, hidden_, heads);
    AddAttention(ProductRole::kOutput, heads * layer_.value_width(), hidden_);
    if (!layer_.block_index) return;
    AddAttention(ProductRole::kIndex, hidden_,
                 std::int64_t{layer_.block_index->dim} * (layer_.block_index->heads + 1));
  }

  void AddLatent(const LatentSpec& latent) {
    const std::int64_t heads = layer_.query_heads / tensor_;
    const std::int64_t query = heads * (latent.nope_dim + latent.rope_dim);
    const std::int64_t cached = latent.kv_rank + latent.rope_dim;
    if (latent.query_rank > 0) {
      AddAttention(ProductRole::kInput, hidden_, latent.query_rank + cached);
      AddAttention(ProductRole::kInput, latent.query_rank, query);
    } else {
      AddAttention(ProductRole::kInput, hidden_, query + cached);
    }
    AddAttention(ProductRole::kLatentHeads, latent.kv_rank,
                 heads * (latent.nope_dim + latent.value_dim));
    if (latent.owns_index()) {
      AddAttention(ProductRole::kIndex, latent.query_rank,
                   std::int64_t{latent.index_heads} * latent.index_dim);
      AddAttention(ProductRole::kIndex, hidden_, latent.index_dim + latent.index_heads);
    }
    if (layer_.output_gate == OutputGate::kFull) {
      AddAttention(ProductRole::kGate, hidden_, heads * latent.value_dim);
    } else if (layer_.output_gate == OutputGate::kHead) {
      AddAttention(ProductRole::kGate, hidden_, heads);
    }
    AddAttention(ProductRole::kOutput, heads * latent.value_dim, hidden_);
  }

  void AddRecurrent(const RecurrentSpec& recurrent) {
    const auto add = [this](std::int64_t inputs, std::int64_t outputs) {
      Add(LayerPart::kRecurrent, ProductRole::kInput, inputs, outputs);
    };
    const auto [heads, keys, values] = WidthsOf(recurrent, parallelism_);
    switch (recurrent.kind) {
      case RecurrentKind::kGatedDelta:
        add(hidden_, 2 * keys + 2 * values);
        Add(LayerPart::kRecurrentGates, ProductRole::kGate, hidden_, 2 * heads);
        break;
      case RecurrentKind::kKimiDelta:
        add(hidden_, 3 * values + heads);
        for (const bool full_rank : {recurrent.full_rank_decay, recurrent.full_rank_gate}) {
          if (!full_rank) add(hidden_, recurrent.value_dim);
          add(full_rank ? hidden_ : recurrent.value_dim, values);
        }
        break;
      case RecurrentKind::kMamba2:
        add(hidden_, 2 * values + 2 * keys + heads);
        break;
      case RecurrentKind::kLightning:
        add(hidden_, 4 * values);
        break;
    }
    Add(LayerPart::kRecurrent, ProductRole::kOutput, values, hidden_);
  }

  void AddMlp(LayerPart part, std::int64_t outer, std::int64_t width) {
    if (width == 0) return;
    const std::int64_t share = width / tensor_;
    Add(part, ProductRole::kGateUp, outer, (layer_.gated_mlp ? 2 : 1) * share);
    Add(part, ProductRole::kDown, share, outer);
  }

  // Routers are on every rank.
  void AddMixture() {
    const MoeSpec& moe = layer_.moe;
    Add(LayerPart::kRouter, ProductRole::kRouter, hidden_, moe.experts + moe.identity_experts);
    if (moe.latent > 0) {
      Add(LayerPart::kDense, ProductRole::kResize, hidden_, moe.latent);
      Add(LayerPart::kDense, ProductRole::kResize, moe.latent, hidden_);
    }
    AddMlp(LayerPart::kDense, hidden_, moe.dense_intermediate);
    AddMlp(LayerPart::kShared, hidden_, moe.shared_intermediate);
    AddMlp(LayerPart::kExperts, moe.latent > 0 ? moe.latent : hidden_, moe.expert_intermediate);
  }

  const LayerSpec& layer_;
  const Parallelism& parallelism_;
  std::int64_t hidden_;
  std::int64_t tensor_;
  std::vector<LayerProduct> products_;
};

// Numbers of convolutions, decays, biases and norms of a recurrence.
std::int64_t OtherNumbers(const RecurrentSpec& r, const Parallelism& p) {
  const auto [heads, keys, values] = WidthsOf(r, p);
  switch (r.kind) {
    case RecurrentKind::kGatedDelta:
      return (2 * keys + values) * r.convolution + 2 * heads + r.value_dim;
    case RecurrentKind::kKimiDelta:
      return 3 * values * r.convolution + heads + values + r.value_dim;
    case RecurrentKind::kMamba2:
      return (values + 2 * keys) * (r.convolution + 1) + 3 * heads + values;
    case RecurrentKind::kLightning:
      return values;
  }
  return 0;
}

// Norms within attention over cached keys, and logits that are learned.
std::int64_t OtherNumbers(const ModelSpec& m, const LayerSpec& l, const Parallelism& p) {
  if (l.latent) {
    return l.latent->query_rank + l.latent->kv_rank +
           (l.latent->owns_index() ? 2 * l.latent->index_dim : 0);
  }
  const std::int64_t heads = l.query_heads / p.tensor;
  std::int64_t numbers = l.query_rank;
  if (l.full_qk_norm) {
    numbers += (heads + KvHeadsPerRank(l, p)) * l.head_dim;
  } else if (l.qk_norm) {
    numbers += 2 * NormParameters(m, l.head_dim);
  }
  if (l.sinks) numbers += heads;
  if (l.block_index) numbers += 2 * std::int64_t{l.block_index->dim};
  return numbers;
}

bool HasBias(const LayerSpec& layer, const LayerProduct& product) {
  switch (product.role) {
    case ProductRole::kInput:
      return layer.qkv_bias && product.part == LayerPart::kAttention && !layer.latent;
    case ProductRole::kOutput:
      return layer.output_bias && product.part == LayerPart::kAttention && !layer.latent;
    case ProductRole::kGateUp:
    case ProductRole::kDown:
      return layer.mlp_bias || (layer.moe.expert_bias && product.part == LayerPart::kExperts);
    default:
      return false;
  }
}

std::int64_t& NumbersOf(LayerPart part, LayerCount& count) {
  switch (part) {
    case LayerPart::kAttention:
      return count.attention;
    case LayerPart::kRecurrent:
      return count.recurrent;
    case LayerPart::kDense:
      return count.dense;
    case LayerPart::kShared:
      return count.shared;
    case LayerPart::kExperts:
      return count.experts;
    case LayerPart::kRecurrentGates:
    case LayerPart::kRouter:
      break;
  }
  return count.rest;
}

}  // namespace

std::vector<LayerProduct> LayerProducts(const ModelSpec& model, const LayerSpec& layer,
                                        const Parallelism& parallelism) {
  return ProductList(model, layer, parallelism).Build();
}

RecurrentWidths WidthsOf(const RecurrentSpec& recurrent, const Parallelism& parallelism) {
  const std::int64_t heads = recurrent.value_heads / parallelism.tensor;
  const std::int64_t key_heads = std::max(1, recurrent.key_heads / parallelism.tensor);
  return {heads, key_heads * recurrent.key_dim, heads * recurrent.value_dim};
}

PairFlops PairFlopsOf(const LayerSpec& layer) {
  const std::int64_t heads = layer.query_heads;
  const std::int64_t each = 2 * heads * (std::int64_t{layer.head_dim} + layer.value_width());
  if (!layer.latent) return {each, each};
  return {each, 2 * heads * (2 * std::int64_t{layer.latent->kv_rank} + layer.latent->rope_dim)};
}

DType FormatOfPart(const ModelSpec& model, LayerPart part) {
  const auto format = [&]() -> std::optional<DType> {
    switch (part) {
      case LayerPart::kAttention:
        return model.formats.attention;
      case LayerPart::kRecurrent:
      case LayerPart::kRecurrentGates:
        return model.formats.recurrent;
      case LayerPart::kDense:
      case LayerPart::kRouter:
        return model.formats.dense;
      case LayerPart::kShared:
        return model.formats.shared;
      case LayerPart::kExperts:
        return model.formats.experts;
    }
    return std::nullopt;
  };
  return format().value_or(model.weight_dtype);
}

std::int64_t NormParameters(const ModelSpec& m, std::int64_t width) {
  return m.norm == NormKind::kLayerNorm ? 2 * width : width;
}

LayerCount CountLayer(const ModelSpec& m, const LayerSpec& l, const Parallelism& p,
                      std::int64_t experts) {
  LayerCount count;
  count.rest = l.norms_per_layer * NormParameters(m, m.hidden) + l.scales_per_layer;
  if (l.recurrent) {
    count.rest += OtherNumbers(*l.recurrent, p);
  } else if (l.query_heads > 0) {
    count.rest += OtherNumbers(m, l, p);
  }
  for (const LayerProduct& product : LayerProducts(m, l, p)) {
    const std::int64_t copies = product.part == LayerPart::kExperts ? experts : 1;
    NumbersOf(product.part, count) += copies * product.numbers();
    if (HasBias(l, product)) count.rest += copies * product.outputs;
  }
  // The first of two factors of the queries has no bias.
  if (l.qkv_bias && !l.latent) count.rest -= l.query_rank;
  if (l.moe.experts == 0) return count;
  const std::int64_t choices = l.moe.experts + l.moe.identity_experts;
  if (l.moe.selection_bias) count.rest += choices;
  if (l.moe.router_bias) count.rest += choices;
  if (l.moe.shared_intermediate > 0 && l.moe.shared_gate) count.rest += m.hidden;
  return count;
}

double LayerBytes(const ModelSpec& m, const LayerSpec& layer, const Parallelism& p) {
  const LayerCount count = CountLayer(m, layer, p, layer.moe.experts);
  const auto bytes = [&](std::int64_t numbers, LayerPart part) {
    return static_cast<double>(numbers) * BytesPerWeight(FormatOfPart(m, part));
  };
  const bool uniform = !ListsLayers(m) && m.formats == WeightFormats{} && !m.is_mtp_module;
  const DType rest = uniform ? m.weight_dtype : EmbeddingFormat(m.weight_dtype);
  return bytes(count.attention, LayerPart::kAttention) +
         bytes(count.recurrent, LayerPart::kRecurrent) + bytes(count.dense, LayerPart::kDense) +
         bytes(count.shared, LayerPart::kShared) + bytes(count.experts, LayerPart::kExperts) +
         static_cast<double>(count.rest) * BytesPerWeight(rest);
}

}  // namespace twin
