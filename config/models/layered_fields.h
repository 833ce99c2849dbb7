// Fields of a config.json whose layers differ.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "config/models/config_fields.h"
#include "core/layer_spec.h"
#include "core/model_spec.h"

namespace twin {

// num_hidden_layers, at most 4096.
std::int32_t ReadLayerCount(const ConfigFields& fields, const char* field = "num_hidden_layers");
// A model of hidden_size, vocab_size and the layers; formats stay as they are.
ModelSpec ReadFrame(const ConfigFields& fields, const std::vector<LayerSpec>& layers,
                    const char* positions = "max_position_embeddings");
// num_attention_heads, num_key_value_heads and head_dim.
LayerSpec ReadPlainHeads(const ConfigFields& fields);
// Also attention_bias, which holds for all projections.
LayerSpec ReadBiasedHeads(const ConfigFields& fields, bool absent = false);
LatentSpec ReadLatentShape(const ConfigFields& fields);
LayerSpec LatentLayer(std::int32_t heads, const LatentSpec& latent);

struct ExpertFields {
  const char* experts = "n_routed_experts";
  const char* per_token = "num_experts_per_tok";
  const char* width = "moe_intermediate_size";
  const char* shared_count = nullptr;  // shared experts, each of `width`
  const char* shared_width = nullptr;
  bool selection_bias = false;
  bool shared_gate = false;
};
MoeSpec ReadExperts(const ConfigFields& fields, const ExpertFields& names);
// For each layer, whether its MLP is a mixture: first_k_dense_replace, moe_layer_freq (a number or
// a list), mlp_layer_types.
std::vector<bool> ReadSparseLayers(const ConfigFields& fields, std::int32_t layers,
                                   std::int32_t first_dense);
// `layer` with the mixture or a dense MLP of intermediate_size.
LayerSpec WithMlp(const ConfigFields& fields, LayerSpec layer, const MoeSpec& moe, bool sparse);
// For each layer, whether it has the window: layer_types, or all but each period's last.
std::vector<bool> ReadWindowedLayers(const ConfigFields& fields, std::int32_t layers,
                                     std::int32_t period);
std::int32_t ReadWindowSize(const ConfigFields& fields);

}  // namespace twin
