#include "sim/cost/ffn_pool_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "core/input_error.h"
#include "core/layer_groups.h"

namespace twin::sim {
namespace {

[[noreturn]] void Refuse(const char* field, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, std::string("system.ffn") + field, what);
}

LayerSpec AttentionAlone(LayerSpec layer) {
  layer.intermediate = 0;
  layer.gated_mlp = true;
  layer.mlp_bias = false;
  layer.moe = {};
  return layer;
}

LayerSpec MlpAlone(const LayerSpec& layer) {
  LayerSpec mlp;
  mlp.intermediate = layer.intermediate;
  mlp.gated_mlp = layer.gated_mlp;
  mlp.mlp_bias = layer.mlp_bias;
  mlp.moe = layer.moe;
  mlp.norms_per_layer = 0;
  return mlp;
}

ModelSpec OfLayers(const ModelSpec& model, const LayerSpec& layer, std::int32_t layers) {
  ModelSpec made = model;
  ListLayers({{layers, layer}}, made);
  made.mtp_layer.reset();
  return made;
}

// As small as a model can be beside its layers: FFN devices have no embedding and no head.
void DropEnds(ModelSpec& model) {
  model.vocab = 1;
  model.final_norm = false;
  model.learned_positions = 0;
  model.embedding_width = 0;
}

bool HasAttention(const LayerSpec& layer) {
  return layer.query_heads > 0 || layer.recurrent.has_value();
}

// Widths that every token visits beside the experts it chooses.
std::int32_t WidthOfAllTokens(const LayerSpec& layer) {
  const MoeSpec& moe = layer.moe;
  return moe.experts > 0 ? moe.shared_intermediate + moe.dense_intermediate : layer.intermediate;
}

void ValidateLayer(const ModelSpec& model, const LayerSpec& layer) {
  if (!HasAttention(layer) || !layer.has_mlp()) {
    Refuse("", fmt::format("{} has layers without attention or without an MLP; allowed: models "
                           "whose layers have both",
                           model.name));
  }
  if (layer.moe.latent > 0 || layer.moe.identity_experts > 0) {
    Refuse("", fmt::format("the experts of {} compute in a latent width or return their input; "
                           "allowed: other experts and dense models",
                           model.name));
  }
}

void ValidateShares(const ModelSpec& model, const LayerSpec& layer, const FfnPoolConfig& ffn) {
  const std::int32_t devices = FfnDevicesOfLayer(model, ffn);
  const bool pooled = ffn.placement == FfnPoolPlacement::kPooled;
  const std::string counted = pooled ? std::string("is ") + std::to_string(devices)
                                     : fmt::format("gives {} a layer", devices);
  if (IsExpertParallel(model, ffn)) {
    if (layer.moe.experts % devices == 0) return;
    Refuse(".devices", fmt::format("{}; allowed with expert_parallel: a divisor of the {} experts",
                                   counted, layer.moe.experts));
  }
  const MoeSpec& moe = layer.moe;
  for (const std::int32_t width :
       {moe.experts > 0 ? moe.expert_intermediate : 0, WidthOfAllTokens(layer)}) {
    if (width % devices == 0) continue;
    Refuse(".devices",
           fmt::format("{}; allowed without expert_parallel: a divisor of the MLP's width {}",
                       counted, width));
  }
}

}  // namespace

bool IsExpertParallel(const ModelSpec& model, const FfnPoolConfig& ffn) {
  return ffn.expert_parallel.value_or(MostExperts(model) > 0);
}

std::int32_t FfnDevicesOfLayer(const ModelSpec& model, const FfnPoolConfig& ffn) {
  return ffn.placement == FfnPoolPlacement::kPooled ? ffn.devices : ffn.devices / model.layers;
}

void ValidateSplit(const ModelSpec& model, const Parallelism& parallelism,
                   const FfnPoolConfig& ffn) {
  if (parallelism.pipeline != 1) {
    Refuse("", fmt::format("needs a replica of one stage; pipeline_parallel is {}; allowed: 1",
                           parallelism.pipeline));
  }
  if (IsExpertParallel(model, ffn) && MostExperts(model) == 0) {
    Refuse(".expert_parallel",
           fmt::format("{} has no experts; allowed: mixtures of experts", model.name));
  }
  if (ffn.placement == FfnPoolPlacement::kPerLayer && ffn.devices % model.layers != 0) {
    Refuse(".devices", fmt::format("is {}; allowed with PER_LAYER: a multiple of the {} layers",
                                   ffn.devices, model.layers));
  }
  for (const LayerGroup& group : OrderedLayers(model)) {
    ValidateLayer(model, group.layer);
    ValidateShares(model, group.layer, ffn);
  }
}

ModelSpec WithoutMlps(const ModelSpec& model) {
  std::vector<LayerGroup> groups = OrderedLayers(model);
  for (LayerGroup& group : groups) group.layer = AttentionAlone(group.layer);
  ModelSpec made = model;
  ListLayers(std::move(groups), made);
  made.mtp_layer.reset();
  return made;
}

ModelSpec AttentionLayers(const ModelSpec& model, const LayerSpec& layer, std::int32_t layers) {
  ModelSpec made = OfLayers(model, AttentionAlone(layer), layers);
  made.name += ", attention";
  return made;
}

std::vector<FfnPart> FfnParts(const ModelSpec& model, const LayerSpec& layer,
                              const FfnPoolConfig& ffn) {
  const LayerSpec mlp = MlpAlone(layer);
  const std::int32_t devices = FfnDevicesOfLayer(model, ffn);
  if (!IsExpertParallel(model, ffn)) {
    return {{.mlp = mlp, .formats = model.formats, .tensor = devices, .rows_per_token = 1}};
  }
  std::vector<FfnPart> parts;
  if (mlp.moe.experts > 0) {
    FfnPart routed{.mlp = mlp,
                   .formats = model.formats,
                   .rows_per_token = static_cast<double>(mlp.moe.experts_per_token) / devices};
    MoeSpec& moe = routed.mlp.moe;
    moe.experts /= devices;
    moe.experts_per_token = 1;
    moe.shared_intermediate = 0;
    moe.dense_intermediate = 0;
    parts.push_back(routed);
  }
  if (const std::int32_t width = WidthOfAllTokens(layer); width > 0) {
    FfnPart dense{.mlp = mlp, .formats = model.formats, .rows_per_token = 1.0 / devices};
    dense.mlp.moe = {};
    dense.mlp.intermediate = width;
    if (mlp.moe.shared_intermediate > 0) dense.formats.dense = model.formats.shared;
    parts.push_back(dense);
  }
  return parts;
}

ModelSpec FfnLayers(const ModelSpec& model, const FfnPart& part, std::int32_t layers) {
  ModelSpec made = OfLayers(model, part.mlp, layers);
  made.name += ", FFN";
  made.formats = part.formats;
  DropEnds(made);
  return made;
}

double DevicesVisited(const ModelSpec& model, const LayerSpec& layer, const FfnPoolConfig& ffn) {
  if (!IsExpertParallel(model, ffn)) return 1;
  const double devices = FfnDevicesOfLayer(model, ffn);
  const MoeSpec& moe = layer.moe;
  // Probability that none of a device's experts is chosen, and that its share of tokens of the
  // shared expert or a dense MLP does not hold the token.
  double missed = 1;
  const double held = moe.experts / devices;
  for (std::int32_t chosen = 0; chosen < moe.experts_per_token; ++chosen) {
    missed *= std::max(0.0, (moe.experts - held - chosen) / (moe.experts - chosen));
  }
  if (WidthOfAllTokens(layer) > 0) missed *= 1 - 1 / devices;
  return devices * (1 - missed);
}

std::int64_t FfnWeightBytes(const ModelSpec& model, const FfnPoolConfig& ffn) {
  const bool pooled = ffn.placement == FfnPoolPlacement::kPooled;
  std::int64_t all = 0;
  std::int64_t most = 0;
  for (const LayerGroup& group : OrderedLayers(model)) {
    std::int64_t layer = 0;
    for (const FfnPart& part : FfnParts(model, group.layer, ffn)) {
      layer += WeightBytesPerRank(FfnLayers(model, part, 1), {.tensor = part.tensor}, 0);
    }
    all += group.layers * layer;
    most = std::max(most, layer);
  }
  return pooled ? all : most;
}

void RequireFfnPoolFits(const ModelSpec& model, const FfnPoolConfig& ffn) {
  const std::int64_t bytes = FfnWeightBytes(model, ffn);
  const double room = static_cast<double>(ffn.hardware_spec.memory_bytes) * ffn.utilization;
  if (static_cast<double>(bytes) <= room) return;
  Refuse(".devices",
         fmt::format("is {}: weights of {:.3f} GB a device do not fit; allowed: {:.3f} GB, {} x "
                     "the memory of {}",
                     ffn.devices, static_cast<double>(bytes) * 1e-9, room * 1e-9, ffn.utilization,
                     ffn.hardware_spec.name));
}

}  // namespace twin::sim
