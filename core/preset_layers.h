// The words of the tables of presets: builders of layers and models.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/layer_pattern.h"
#include "core/model_spec.h"

namespace twin::presets {

inline LayerSpec Heads(std::int32_t query_heads, std::int32_t kv_heads, std::int32_t head_dim) {
  LayerSpec layer;
  layer.query_heads = query_heads;
  layer.kv_heads = kv_heads;
  layer.head_dim = head_dim;
  return layer;
}

inline LayerSpec NormedHeads(std::int32_t query_heads, std::int32_t kv_heads,
                             std::int32_t head_dim) {
  LayerSpec layer = Heads(query_heads, kv_heads, head_dim);
  layer.qk_norm = true;
  return layer;
}

inline LayerSpec Windowed(LayerSpec layer, std::int32_t window) {
  layer.sliding_window = window;
  return layer;
}

inline LayerSpec Chunked(LayerSpec layer, std::int32_t chunk) {
  layer.chunk = chunk;
  return layer;
}

inline LayerSpec Latent(std::int32_t heads, const LatentSpec& latent) {
  LayerSpec layer;
  layer.query_heads = heads;
  layer.kv_heads = heads;
  layer.head_dim = latent.nope_dim + latent.rope_dim;
  layer.value_dim = latent.value_dim;
  layer.latent = latent;
  return layer;
}

inline LayerSpec Recurrent(const RecurrentSpec& recurrent) {
  LayerSpec layer;
  layer.recurrent = recurrent;
  return layer;
}

inline LayerSpec GatedDelta(std::int32_t key_heads, std::int32_t value_heads) {
  return Recurrent(
      {.key_heads = key_heads, .value_heads = value_heads, .key_dim = 128, .value_dim = 128});
}

inline LayerSpec KimiDelta(std::int32_t heads, bool full_rank_gate = false) {
  return Recurrent({.kind = RecurrentKind::kKimiDelta,
                    .key_heads = heads,
                    .value_heads = heads,
                    .key_dim = 128,
                    .value_dim = 128,
                    .full_rank_gate = full_rank_gate});
}

inline LayerSpec Mamba2(std::int32_t heads, std::int32_t head_dim, std::int32_t groups,
                        std::int32_t state) {
  return Recurrent({.kind = RecurrentKind::kMamba2,
                    .key_heads = groups,
                    .value_heads = heads,
                    .key_dim = state,
                    .value_dim = head_dim});
}

inline LayerSpec Dense(LayerSpec layer, std::int32_t width) {
  layer.intermediate = width;
  return layer;
}

inline LayerSpec Mixture(LayerSpec layer, const MoeSpec& moe) {
  layer.moe = moe;
  return layer;
}

// A mixer and nothing else, or an MLP and nothing else.
inline LayerSpec Alone(LayerSpec layer) {
  layer.norms_per_layer = 1;
  return layer;
}

inline LayerSpec WithNorms(LayerSpec layer, std::int32_t norms) {
  layer.norms_per_layer = norms;
  return layer;
}

inline LayerSpec SquaredRelu(LayerSpec layer) {
  layer.gated_mlp = false;
  return Alone(layer);
}

struct Frame {
  std::int32_t hidden;
  std::int32_t vocab;
  std::int32_t max_position;
  bool tied = false;
};

inline ModelSpec Model(const Frame& frame, std::string_view pattern,
                       const std::vector<LayerSymbol>& symbols) {
  ModelSpec model;
  model.hidden = frame.hidden;
  model.vocab = frame.vocab;
  model.max_position = frame.max_position;
  model.tied_embeddings = frame.tied;
  SetLayers(ExpandLayerPattern(pattern, symbols), model);
  return model;
}

// With a module of multi-token prediction whose layer is `layer`, or the last one.
inline ModelSpec WithMtp(ModelSpec model, const LayerSpec& layer) {
  model.mtp_layer = layer;
  return model;
}
inline ModelSpec WithMtp(const ModelSpec& model) {
  return WithMtp(model, model.groups.back().layer);
}

inline MoeSpec Experts(std::int32_t experts, std::int32_t experts_per_token, std::int32_t width,
                       std::int32_t shared_width = 0) {
  return {.experts = experts,
          .experts_per_token = experts_per_token,
          .expert_intermediate = width,
          .shared_intermediate = shared_width,
          .shared_gate = false};
}

// Scores of experts get a learned number that acts on the choice alone.
inline MoeSpec Corrected(MoeSpec moe) {
  moe.selection_bias = true;
  return moe;
}

inline MoeSpec GatedShared(MoeSpec moe) {
  moe.shared_gate = true;
  return moe;
}

inline MoeSpec InLatent(MoeSpec moe, std::int32_t latent) {
  moe.latent = latent;
  return moe;
}

inline LatentSpec WithIndex(LatentSpec latent, std::int32_t heads) {
  latent.index_heads = heads;
  latent.index_dim = 128;
  latent.index_keys = 2048;
  return latent;
}

inline LatentSpec ReusingIndex(LatentSpec latent) {
  latent.reuses_index = true;
  return latent;
}

}  // namespace twin::presets
