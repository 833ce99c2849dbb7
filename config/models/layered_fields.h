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

// ConfigFields with lists that have an item a layer. Throws InputError (data) as ConfigFields does,
// which it borrows.
class LayeredFields {
 public:
  explicit LayeredFields(const ConfigFields& config) : config_(config) {}

  [[nodiscard]] std::int32_t Size(const char* field) const { return config_.Size(field); }
  [[nodiscard]] std::int32_t Or(const char* field, std::int32_t absent) const;  // at least 0
  [[nodiscard]] bool Flag(const char* field, bool absent) const {
    return config_.Flag(field, absent);
  }
  [[nodiscard]] std::string Text(const char* field, const char* absent) const;
  [[nodiscard]] bool Has(const char* field) const { return config_.Has(field); }
  [[nodiscard]] const nlohmann::json* Find(const char* field) const { return config_.Find(field); }
  // One name or number a layer; refused unless the list has `layers` items, all of them allowed.
  [[nodiscard]] std::vector<std::string> Names(const char* field, std::int32_t layers,
                                               std::initializer_list<std::string_view> allowed);
  [[nodiscard]] std::vector<std::int32_t> Numbers(const char* field, std::int32_t layers,
                                                  std::int32_t highest);
  // One object a layer.
  [[nodiscard]] std::vector<ConfigFields> Blocks(const char* field, std::int32_t layers);
  void Know(std::initializer_list<const char*> fields) const { config_.Know(fields); }
  [[noreturn]] void Refuse(const std::string& what) const { config_.Refuse(what); }
  [[nodiscard]] const ConfigFields& config() const { return config_; }

 private:
  const nlohmann::json& List(const char* field, std::int32_t layers);

  const ConfigFields& config_;
};

// num_hidden_layers, at most 4096.
std::int32_t ReadLayerCount(LayeredFields& fields, const char* field = "num_hidden_layers");
// A model of hidden_size, vocab_size and the layers; formats stay as they are.
ModelSpec ReadFrame(LayeredFields& fields, const std::vector<LayerSpec>& layers,
                    const char* positions = "max_position_embeddings");
// num_attention_heads, num_key_value_heads and head_dim.
LayerSpec ReadPlainHeads(LayeredFields& fields);
// Also attention_bias, which holds for all projections.
LayerSpec ReadBiasedHeads(LayeredFields& fields, bool absent = false);
LatentSpec ReadLatentShape(LayeredFields& fields);
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
MoeSpec ReadExperts(LayeredFields& fields, const ExpertFields& names);
// For each layer, whether its MLP is a mixture: first_k_dense_replace, moe_layer_freq (a number or
// a list), mlp_layer_types.
std::vector<bool> ReadSparseLayers(LayeredFields& fields, std::int32_t layers,
                                   std::int32_t first_dense);
// `layer` with the mixture or a dense MLP of intermediate_size.
LayerSpec WithMlp(LayeredFields& fields, LayerSpec layer, const MoeSpec& moe, bool sparse);
// For each layer, whether it has the window: layer_types, or all but each period's last.
std::vector<bool> ReadWindowedLayers(LayeredFields& fields, std::int32_t layers,
                                     std::int32_t period);
std::int32_t ReadWindowSize(LayeredFields& fields);

}  // namespace twin
