// The families of models that config.json can name by its model_type, one row each. The rows stand
// beside the readers that they name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/models/model_config.h"

namespace twin {

class ConfigFields;

// Layers that `sliding_window` applies to if the config has no `layer_types`.
enum class WindowRule : std::uint8_t {
  kNone,                // the family has no window
  kAll,                 // every layer, if a window is given
  kEven,                // layers 0, 2, 4, ...
  kFromLayerIfEnabled,  // layers max_window_layers and above, if use_sliding_window
  kAllIfEnabled,        // every layer, if use_sliding_window
};

// A mixture of experts in place of each layer's MLP.
struct ExpertDefaults {
  const char* experts_field = nullptr;  // nullptr: the family has a dense MLP
  const char* width_field = nullptr;    // field with the width of one expert
  std::int32_t experts = 0;
  std::int32_t experts_per_token = 0;
  std::int32_t width = 0;         // 0: the field is required
  std::int32_t shared_width = 0;  // width of the expert that every token passes; 0: there is none
  // The weights of a token's experts are divided by their sum: always, or if norm_topk_prob.
  bool always_normalised = false;
};

// A family is plain (`read`: equal layers with attention over cached keys), layered (`read_layers`)
// or refused; exactly one of the three members is set.
//
// The other members are facts that a family fixes in code, and the values of fields that a config
// may leave out. Sizes that define a model (layers, hidden size, query heads, MLP width,
// vocabulary, positions) have no defaults: a config without them is damaged. Readers of layered
// families have the defaults of their shapes in code.
struct ModelFamily {
  std::string_view model_type;
  ModelConfig (*read)(const ConfigFields&, const ModelFamily&) = nullptr;
  // The shape, in bf16 and without a name.
  ModelSpec (*read_layers)(const ConfigFields&) = nullptr;
  std::string_view refused = {};  // the reason, with a way out
  // Reads what the family adds to the computation of its kind. No executor computes a layered
  // family without it.
  void (*read_computation)(const ConfigFields&, ModelConfig&) = nullptr;

  // For docs/models.md: names that the models were published by, and how their parameters count.
  std::string_view published_as = {};
  std::string_view counts = "exact";

  WeightNaming naming = WeightNaming::kLlama;
  // num_key_value_heads and head_dim; 0: as many as query heads, hidden size / query heads.
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  double norm_epsilon = 1e-6;
  double rope_theta = 10000;
  double rotary_share = 1;              // partial_rotary_factor
  bool longrope_has_old_names = false;  // LongRoPE may also be called "su" or "yarn"
  bool positions_are_scaled = false;    // max_position_embeddings hold the factor of the scaling
  const char* activation_field = "hidden_act";
  const char* activation = "silu";
  bool has_qkv_bias = false;
  const char* qkv_bias_field = nullptr;  // may take has_qkv_bias away
  bool has_qk_norm = false;
  bool tied_embeddings = false;
  WindowRule window_rule = WindowRule::kNone;
  std::int32_t sliding_window = 0;  // 0: none
  std::optional<std::int32_t> end_token = std::nullopt;
  ExpertDefaults moe = {};

  [[nodiscard]] bool has_experts() const { return moe.experts_field != nullptr; }
  [[nodiscard]] bool is_plain() const { return read != nullptr; }
  [[nodiscard]] bool is_layered() const { return read_layers != nullptr; }
};

// Rows by the kind of their readers.
std::span<const ModelFamily> PlainFamilies();
std::span<const ModelFamily> LatentFamilies();
std::span<const ModelFamily> MixtureFamilies();
std::span<const ModelFamily> RecurrentFamilies();
std::span<const ModelFamily> DenseFamilies();

// All rows: those above in their order, then the refused ones.
std::span<const ModelFamily> ModelFamilies();

// nullptr if there is none of that name.
const ModelFamily* FindModelFamily(std::string_view model_type);

// Names of families, as "llama, mistral, ...": of those that can be read, of the plain ones, and of
// the layered ones that executors compute.
std::string ModelFamilyNames();
std::string PlainFamilyNames();
std::string ComputedLayeredNames();

// The table of docs/models.md, in Markdown, between two comments that mark it.
std::string ModelFamilyTable();

}  // namespace twin
