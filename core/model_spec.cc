#include "core/model_spec.h"

#include <algorithm>
#include <string>

#include "core/check.h"
#include "core/input_error.h"
#include "core/layer_groups.h"
#include "core/layer_work.h"

namespace twin {
namespace {

[[noreturn]] void Refuse(const ModelSpec& model, const std::string& what) {
  throw InputError(InputError::Kind::kUsage,
                   model.name.empty() ? "model without a name" : "model " + model.name, what);
}

void RequirePositive(const ModelSpec& model, const char* field, std::int64_t value) {
  if (value >= 1) return;
  Refuse(model, std::string(field) + " is " + std::to_string(value) + ", must be at least 1");
}

void RequireDivides(const ModelSpec& model, const char* field, std::int64_t value,
                    std::int64_t tensor) {
  if (value % tensor == 0) return;
  Refuse(model, std::string(field) + " " + std::to_string(value) +
                    " does not divide by tensor parallelism " + std::to_string(tensor));
}

std::int64_t CeilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t EmbeddingWidth(const ModelSpec& m) {
  return m.embedding_width > 0 ? m.embedding_width : m.hidden;
}

// Projection between embedding width and hidden size, in one direction.
std::int64_t EmbeddingProjection(const ModelSpec& m) {
  return EmbeddingWidth(m) == m.hidden ? 0 : EmbeddingWidth(m) * m.hidden;
}

// Parameters of the first stage before its layers (input), and of the last stage after them
// (output).
std::int64_t InputParameters(const ModelSpec& m, std::int64_t tensor) {
  const std::int64_t hidden = m.hidden;
  // Embedding and hidden state are normed and projected together.
  if (m.is_mtp_module) return 2 * hidden * hidden + 2 * NormParameters(m, hidden);
  return CeilDiv(m.vocab, tensor) * EmbeddingWidth(m) + EmbeddingProjection(m) +
         std::int64_t{m.learned_positions} * m.hidden;
}

std::int64_t OutputParameters(const ModelSpec& m, std::int64_t tensor, bool shares_embedding) {
  const std::int64_t norm = m.final_norm ? NormParameters(m, m.hidden) : 0;
  if (m.is_mtp_module) return norm;
  const std::int64_t head = CeilDiv(m.vocab, tensor) * EmbeddingWidth(m);
  return norm + EmbeddingProjection(m) + (shares_embedding ? 0 : head);
}

enum class CountedExperts : std::uint8_t { kAll, kActive };

std::int64_t LayerParameters(const ModelSpec& m, CountedExperts experts) {
  std::int64_t sum = 0;
  for (const LayerGroup& kind : StageLayerKinds(m, {}, 0)) {
    const MoeSpec& moe = kind.layer.moe;
    sum += kind.layers *
           CountLayer(m, kind.layer, {},
                      experts == CountedExperts::kAll ? moe.experts : moe.experts_per_token)
               .sum();
  }
  return sum;
}

std::int64_t Parameters(const ModelSpec& m, CountedExperts experts) {
  return LayerParameters(m, experts) + InputParameters(m, 1) +
         OutputParameters(m, 1, m.tied_embeddings);
}

void ValidateMixture(const ModelSpec& model, const MoeSpec& moe) {
  RequirePositive(model, "moe.experts", moe.experts);
  RequirePositive(model, "moe.experts_per_token", moe.experts_per_token);
  RequirePositive(model, "moe.expert_intermediate", moe.expert_intermediate);
  if (moe.experts_per_token > moe.experts) {
    Refuse(model, "moe.experts_per_token " + std::to_string(moe.experts_per_token) +
                      " exceeds moe.experts " + std::to_string(moe.experts));
  }
}

void ValidateHeads(const ModelSpec& model, const LayerSpec& layer) {
  RequirePositive(model, "query_heads", layer.query_heads);
  RequirePositive(model, "kv_heads", layer.kv_heads);
  RequirePositive(model, "head_dim", layer.head_dim);
  if (layer.query_heads % layer.kv_heads != 0) {
    Refuse(model, "query_heads " + std::to_string(layer.query_heads) +
                      " is no multiple of kv_heads " + std::to_string(layer.kv_heads));
  }
}

void ValidateLatent(const ModelSpec& model, const LayerSpec& layer) {
  RequirePositive(model, "query_heads", layer.query_heads);
  RequirePositive(model, "latent.kv_rank", layer.latent->kv_rank);
  RequirePositive(model, "latent.nope_dim", layer.latent->nope_dim);
  RequirePositive(model, "latent.value_dim", layer.latent->value_dim);
  if (layer.latent->index_heads > 0) {
    RequirePositive(model, "latent.index_dim", layer.latent->index_dim);
    RequirePositive(model, "latent.index_keys", layer.latent->index_keys);
  }
}

void ValidateRecurrent(const ModelSpec& model, const LayerSpec& layer) {
  if (layer.query_heads > 0 || layer.latent) {
    Refuse(model, "recurrent: a layer of this kind has no query_heads and no latent");
  }
  RequirePositive(model, "recurrent.key_heads", layer.recurrent->key_heads);
  RequirePositive(model, "recurrent.value_heads", layer.recurrent->value_heads);
  RequirePositive(model, "recurrent.key_dim", layer.recurrent->key_dim);
  RequirePositive(model, "recurrent.value_dim", layer.recurrent->value_dim);
}

void ValidateGroups(const ModelSpec& model) {
  std::int64_t layers = 0;
  for (const LayerGroup& group : model.groups) {
    RequirePositive(model, "groups.layers", group.layers);
    layers += group.layers;
    const LayerSpec& layer = group.layer;
    if (layer.recurrent) {
      ValidateRecurrent(model, layer);
    } else if (layer.latent) {
      ValidateLatent(model, layer);
    } else if (layer.query_heads > 0) {
      ValidateHeads(model, layer);
    } else if (layer.reductions() == 0 && !layer.is_empty()) {
      Refuse(model,
             "groups: a layer has neither attention nor MLP; allowed for one that returns its "
             "input: norms_per_layer 0");
    }
    if (layer.moe.experts != 0) ValidateMixture(model, layer.moe);
  }
  if (layers == model.layers) return;
  Refuse(model, "groups have " + std::to_string(layers) + " layers, must have layers " +
                    std::to_string(model.layers));
}

void ValidateSplit(const ModelSpec& model, const LayerSpec& layer, std::int64_t tensor) {
  RequireDivides(model, "query_heads", layer.query_heads, tensor);
  if (layer.linears > 0) RequireDivides(model, "hidden", model.hidden, tensor);
  if (layer.query_heads > 0 && !layer.latent && layer.kv_heads % tensor != 0 &&
      tensor % layer.kv_heads != 0) {
    Refuse(model, "kv_heads " + std::to_string(layer.kv_heads) +
                      " can neither be divided nor replicated over tensor parallelism " +
                      std::to_string(tensor));
  }
  if (layer.recurrent) {
    RequireDivides(model, "recurrent.value_heads", layer.recurrent->value_heads, tensor);
  }
  if (layer.moe.experts == 0) {
    RequireDivides(model, "intermediate", layer.intermediate, tensor);
  } else {
    RequireDivides(model, "moe.expert_intermediate", layer.moe.expert_intermediate, tensor);
    RequireDivides(model, "moe.shared_intermediate", layer.moe.shared_intermediate, tensor);
  }
}

// The first and the last stage may have no layers.
void ValidateStages(const ModelSpec& model, const Parallelism& parallelism) {
  std::int64_t stages = 0;
  std::int64_t layers = 0;
  for (const StageGroup& group : parallelism.stages) {
    RequirePositive(model, "stages.count", group.count);
    RequirePositive(model, "stages.devices", group.devices);
    const bool is_end =
        &group == &parallelism.stages.front() || &group == &parallelism.stages.back();
    if (!is_end || group.count > 1) RequirePositive(model, "stages.layers", group.layers);
    stages += group.count;
    layers += std::int64_t{group.count} * group.layers;
  }
  if (layers != model.layers) {
    Refuse(model, "system.stages hold " + std::to_string(layers) + " layers, must hold its " +
                      std::to_string(model.layers));
  }
  if (stages != parallelism.pipeline) {
    Refuse(model, "system.stages are " + std::to_string(stages) + ", but pipeline_parallel is " +
                      std::to_string(parallelism.pipeline));
  }
}

void RequireWork(const ModelSpec& model, const Parallelism& parallelism, std::int32_t stage) {
  const auto is_empty = [](const LayerGroup& kind) { return kind.layer.is_empty(); };
  if (!std::ranges::all_of(StageLayerKinds(model, parallelism, stage), is_empty)) return;
  Refuse(model, "pipeline parallelism " + std::to_string(parallelism.pipeline) + " gives stage " +
                    std::to_string(stage) + " nothing but layers that return their input");
}

}  // namespace

void SetLayers(const std::vector<LayerGroup>& groups, ModelSpec& model) {
  CHECK(!groups.empty());
  static_cast<LayerSpec&>(model) = groups.front().layer;
  model.layers = 0;
  for (const LayerGroup& group : groups) model.layers += group.layers;
  model.groups.clear();
  model.windowed_layers = 0;
  if (groups.size() > 1) {
    model.groups = groups;
  } else if (model.sliding_window > 0) {
    model.windowed_layers = model.layers;
  }
}

std::int32_t MostExperts(const ModelSpec& model) {
  std::int32_t most = model.moe.experts;
  for (const LayerGroup& group : model.groups) most = std::max(most, group.layer.moe.experts);
  return most;
}

ModelSpec MtpModule(const ModelSpec& model) {
  if (!model.mtp_layer) Refuse(model, "has no module of multi-token prediction");
  ModelSpec module = model;
  module.name += ", multi-token prediction";
  module.mtp_layer.reset();
  module.is_mtp_module = true;
  SetLayers({{1, *model.mtp_layer}}, module);
  return module;
}

void Validate(const ModelSpec& model) {
  RequirePositive(model, "layers", model.layers);
  RequirePositive(model, "hidden", model.hidden);
  RequirePositive(model, "vocab", model.vocab);
  RequirePositive(model, "max_position", model.max_position);
  if (IsWeightFormat(model.kv_dtype)) {
    Refuse(model,
           "kv_dtype is " + std::string(Name(model.kv_dtype)) + ", a format of weights alone");
  }
  if (model.mtp_layer) Validate(MtpModule(model));
  if (ListsLayers(model)) {
    ValidateGroups(model);
    return;
  }
  if (model.latent) {
    ValidateLatent(model, model);
  } else {
    ValidateHeads(model, model);
  }
  if (model.moe.experts == 0) {
    RequirePositive(model, "intermediate", model.intermediate);
  } else {
    ValidateMixture(model, model.moe);
  }
  if (model.sliding_window < 0 || model.windowed_layers < 0 ||
      model.windowed_layers > model.layers) {
    Refuse(model, "sliding_window must be at least 0 and windowed_layers within 0.." +
                      std::to_string(model.layers));
  }
}

void Validate(const ModelSpec& model, const Parallelism& parallelism) {
  Validate(model);
  RequirePositive(model, "tensor parallelism", parallelism.tensor);
  RequirePositive(model, "pipeline parallelism", parallelism.pipeline);
  if (!parallelism.stages.empty()) {
    ValidateStages(model, parallelism);
    return;
  }
  if (parallelism.kv_split == KvSplit::kHeads) {
    for (const LayerGroup& kind : StageLayerKinds(model, {}, 0)) {
      ValidateSplit(model, kind.layer, parallelism.tensor);
    }
  }
  if (parallelism.pipeline > model.layers) {
    Refuse(model, "pipeline parallelism " + std::to_string(parallelism.pipeline) + " exceeds its " +
                      std::to_string(model.layers) + " layers");
  }
  for (std::int32_t stage = 0; stage < parallelism.pipeline; ++stage) {
    RequireWork(model, parallelism, stage);
  }
}

std::int64_t TotalParameters(const ModelSpec& model) {
  return Parameters(model, CountedExperts::kAll);
}

std::int64_t ActiveParameters(const ModelSpec& model) {
  return Parameters(model, CountedExperts::kActive);
}

std::int64_t ActiveLayerParameters(const ModelSpec& model) {
  return LayerParameters(model, CountedExperts::kActive);
}

std::int64_t ActivationByteSize(const ModelSpec& model) {
  return model.weight_dtype == DType::kFp32 ? 4 : 2;
}

std::int32_t StageLayers(const ModelSpec& model, const Parallelism& parallelism,
                         std::int32_t stage) {
  CHECK(stage >= 0 && stage < parallelism.pipeline);
  if (const StageGroup* const group = parallelism.StageGroupOf(stage)) return group->layers;
  const std::int32_t share = model.layers / parallelism.pipeline;
  const std::int32_t remainder = model.layers % parallelism.pipeline;
  const std::int32_t last = parallelism.pipeline - 1;
  const bool has_extra = stage < last && stage >= last - remainder;
  return share + (has_extra ? 1 : 0);
}

std::vector<LayerGroup> StageLayerKinds(const ModelSpec& model, const Parallelism& parallelism,
                                        std::int32_t stage) {
  const std::int32_t count = StageLayers(model, parallelism, stage);
  if (!ListsLayers(model)) return {{count, model}};
  std::int32_t first = 0;
  for (std::int32_t i = 0; i < stage; ++i) first += StageLayers(model, parallelism, i);
  std::vector<LayerGroup> kinds;
  std::int32_t begin = 0;
  for (const LayerGroup& group : model.groups) {
    const std::int32_t end = begin + group.layers;
    const std::int32_t inside = std::min(end, first + count) - std::max(begin, first);
    begin = end;
    if (inside <= 0) continue;
    const auto known = std::ranges::find(kinds, group.layer, &LayerGroup::layer);
    if (known == kinds.end()) {
      kinds.push_back({inside, group.layer});
    } else {
      known->layers += inside;
    }
  }
  return kinds;
}

std::int32_t KvHeadsPerRank(const LayerSpec& layer, const Parallelism& parallelism) {
  return std::max(1, layer.kv_heads / parallelism.tensor);
}

std::int64_t EndParameters(const ModelSpec& model, const Parallelism& parallelism,
                           std::int32_t stage) {
  const bool is_first = stage == 0;
  const bool is_last = stage == parallelism.pipeline - 1;
  std::int64_t ends = is_first ? InputParameters(model, parallelism.tensor) : 0;
  if (is_last) {
    ends += OutputParameters(model, parallelism.tensor, model.tied_embeddings && is_first);
  }
  return ends;
}

std::int64_t LayerBytesPerRank(const ModelSpec& model, const Parallelism& parallelism,
                               std::int32_t stage) {
  double layers = 0;
  for (const LayerGroup& kind : StageLayerKinds(model, parallelism, stage)) {
    layers += kind.layers * LayerBytes(model, kind.layer, parallelism);
  }
  return static_cast<std::int64_t>(layers);
}

std::int64_t WeightBytesPerRank(const ModelSpec& model, const Parallelism& parallelism,
                                std::int32_t stage) {
  return LayerBytesPerRank(model, parallelism, stage) +
         EndParameters(model, parallelism, stage) * ByteSize(EmbeddingFormat(model.weight_dtype));
}

std::int64_t KvBytesPerTokenAndLayer(const ModelSpec& model, const LayerSpec& layer,
                                     const Parallelism& parallelism) {
  if (layer.latent) {
    return (std::int64_t{layer.latent->kv_rank} + layer.latent->rope_dim) *
           ByteSize(model.kv_dtype);
  }
  if (layer.query_heads == 0) return 0;
  return std::int64_t{KvHeadsPerRank(layer, parallelism)} * (layer.head_dim + layer.value_width()) *
         ByteSize(model.kv_dtype);
}

std::int64_t FixedKvBytes(const ModelSpec& m, const LayerSpec& l, const Parallelism& p) {
  if (!l.recurrent) {
    return std::max(l.sliding_window, l.chunk) * KvBytesPerTokenAndLayer(m, l, p);
  }
  const RecurrentSpec& r = *l.recurrent;
  const auto [heads, keys, values] = WidthsOf(r, p);
  constexpr std::int64_t kUnstatedValueBytes = 4;
  const std::int64_t value_bytes =
      r.state_value_bytes > 0 ? r.state_value_bytes : kUnstatedValueBytes;
  const std::int64_t state = heads * r.key_dim * r.value_dim * value_bytes;
  constexpr std::int64_t kTailBytes = 2;
  const std::int64_t taps = std::max(0, r.convolution - 1);
  return state + taps * (2 * keys + values) * kTailBytes;
}

bool KeepsAllTokens(const LayerSpec& layer) {
  return layer.query_heads > 0 && layer.sliding_window == 0 && layer.chunk == 0;
}

// fp8, with a scale of 32 bits.
std::int64_t IndexBytesPerToken(const LayerSpec& layer) {
  constexpr std::int64_t kScaleBytes = 4;
  if (layer.block_index) return layer.block_index->dim + kScaleBytes;
  const bool owns = layer.latent && layer.latent->owns_index();
  return owns ? layer.latent->index_dim + kScaleBytes : 0;
}

KvBytes CachedBytes(const ModelSpec& model, const Parallelism& parallelism, std::int32_t stage) {
  KvBytes bytes;
  if (!ListsLayers(model) && model.sliding_window > 0) {
    const std::int64_t layers = StageLayers(model, parallelism, stage);
    const std::int64_t windowed = layers * model.windowed_layers / model.layers;
    const std::int64_t layer = KvBytesPerTokenAndLayer(model, model, parallelism);
    bytes.per_token = (layers - windowed) * layer;
    bytes.per_sequence = windowed * model.sliding_window * layer;
    return bytes;
  }
  for (const LayerGroup& kind : StageLayerKinds(model, parallelism, stage)) {
    const LayerSpec& layer = kind.layer;
    if (KeepsAllTokens(layer)) {
      bytes.per_token += kind.layers * KvBytesPerTokenAndLayer(model, layer, parallelism);
      bytes.index_per_token += kind.layers * IndexBytesPerToken(layer);
    } else {
      bytes.per_sequence += kind.layers * FixedKvBytes(model, layer, parallelism);
    }
  }
  return bytes;
}

std::int64_t KvBytesPerToken(const ModelSpec& model, const Parallelism& parallelism,
                             std::int32_t stage) {
  if (!ListsLayers(model)) {
    return StageLayers(model, parallelism, stage) *
           (KvBytesPerTokenAndLayer(model, model, parallelism) + IndexBytesPerToken(model));
  }
  const KvBytes bytes = CachedBytes(model, parallelism, stage);
  const bool keeps_all_elsewhere = CachedBytes(model, {}, 0).per_token > 0;
  if (bytes.per_token > 0 || keeps_all_elsewhere) return bytes.per_token + bytes.index_per_token;
  std::int64_t windows = 0;
  for (const LayerGroup& kind : StageLayerKinds(model, parallelism, stage)) {
    windows += kind.layers * KvBytesPerTokenAndLayer(model, kind.layer, parallelism);
  }
  return windows;
}

std::int64_t KvBytesPerToken(const ModelSpec& model) {
  return KvBytesPerToken(model, Parallelism{}, 0);
}

}  // namespace twin
