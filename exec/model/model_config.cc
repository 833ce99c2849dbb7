#include "exec/model/model_config.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <string_view>

#include "config/models/families.h"
#include "config/models/hf_config.h"
#include "config/models/stored_weights.h"
#include "core/input_error.h"
#include "core/layer_groups.h"

namespace twin::exec {
namespace {

// The part of the config that cannot be computed; empty if all can.
std::string NotComputed(const ModelConfig& model) {
  using Scaling = RopeConfig::Scaling;
  if (!model.is_computed) {
    return fmt::format(
        "model_type {}: executors compute models of equal layers with plain attention, and {}; "
        "allowed: simulate it",
        model.model_type, ComputedLayeredNames());
  }
  const bool plain = HasPlainLayers(model.shape);
  if (!plain && !model.quantization.empty()) {
    return fmt::format(
        "quantization_config: quantised weights of model_type {} are not computed; allowed: none",
        model.model_type);
  }
  if (!model.quantization.empty() && !model.int4) {
    return fmt::format(
        "quantization_config: quantised weights of {} are not computed as they are stored; "
        "allowed: none, or 4 bits of method gptq (formats gptq, gptq_v2) or awq (version gemm)",
        QuantizationText(model));
  }
  if (model.is_nested) return "text_config: multi-modal models are not supported";
  if (model.rope.scaling == Scaling::kDynamic || model.rope.scaling == Scaling::kLongRope) {
    return fmt::format("rope type '{}' is not supported, must be default, linear, llama3 or yarn",
                       model.rope.scaling == Scaling::kDynamic ? "dynamic" : "longrope");
  }
  if (model.scales_attention_by_layer) {
    return "scale_attn_by_inverse_layer_idx true is not supported, must be false";
  }
  return "";
}

ModelConfig Computed(ModelConfig model, const std::string& where) {
  const std::string refused = NotComputed(model);
  if (!refused.empty()) throw InputError(InputError::Kind::kData, where, refused);
  return model;
}

constexpr float kEpsilon = 1e-5F;
constexpr std::int32_t kOptOffset = 2;  // unused rows of OPT's position table

[[noreturn]] void Refuse(const ModelSpec& shape, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, shape.name.empty() ? "model shape" : shape.name, what);
}

void SetWindows(const ModelSpec& shape, ModelConfig& config) {
  for (const LayerSpec& layer : LayerList(shape)) {
    config.layer_windows.push_back(layer.sliding_window);
  }
}

// Sets rotary positions, RMSNorm and a gated MLP.
void SetLlamaLike(const ModelSpec& shape, ModelConfig& config) {
  if (shape.head_dim % 2 != 0) {
    Refuse(shape, "has an odd head_dim, which rotary positions cannot turn");
  }
  config.naming = WeightNaming::kLlama;
  config.rotary_dimensions = shape.head_dim;
  if (shape.norms_per_layer == 4) config.norm_placement = NormPlacement::kAround;
}

// Sets learned positions, LayerNorm and a plain MLP.
void SetGpt2OrOpt(const ModelSpec& shape, ModelConfig& config) {
  config.position_offset = shape.learned_positions - shape.max_position;
  const bool opt = config.position_offset == kOptOffset;
  if (!opt && config.position_offset != 0) {
    Refuse(shape, "learned_positions is " + std::to_string(shape.learned_positions) +
                      "; allowed: max_position (as GPT-2), or two more (as OPT)");
  }
  if (!opt && (shape.embedding_width > 0 || shape.kv_heads != shape.query_heads ||
               shape.query_heads * shape.head_dim != shape.hidden)) {
    Refuse(shape, "mixes GPT-2's positions with heads or an embedding that GPT-2 does not have");
  }
  config.naming = opt ? WeightNaming::kOpt : WeightNaming::kGpt2;
  config.activation = opt ? Activation::kRelu : Activation::kGeluTanh;
}

}  // namespace

bool HasPlainLayers(const ModelSpec& shape) {
  const bool ungated = shape.moe.shared_intermediate > 0 && !shape.moe.shared_gate;
  return !ungated && !ListsLayers(shape) && !shape.latent && !shape.recurrent &&
         !shape.block_index && shape.value_dim == 0 && shape.chunk == 0 && !shape.full_qk_norm &&
         !shape.sinks && !shape.keys_are_values && shape.output_gate == OutputGate::kNone &&
         shape.moe.latent == 0 && !shape.moe.selection_bias && !shape.moe.router_bias &&
         !shape.moe.expert_bias && shape.moe.identity_experts == 0 &&
         shape.moe.dense_intermediate == 0 && shape.scales_per_layer == 0 &&
         shape.query_rank == 0 && shape.linears == 0;
}

ModelConfig ReadModelConfig(const std::filesystem::path& path) {
  const bool is_directory = std::filesystem::is_directory(path);
  return Computed(ReadHfConfig(path), (is_directory ? path / "config.json" : path).string());
}

ModelConfig ParseModelConfig(std::string_view text, const std::string& where) {
  return Computed(ParseHfConfig(text, where), where);
}

ModelConfig ConfigOfShape(const ModelSpec& shape) {
  if (!HasPlainLayers(shape)) {
    Refuse(shape,
           "is a shape of layers that differ, or of another attention than plain, which executors "
           "compute from a config.json alone; allowed: simulate it");
  }
  ModelConfig config;
  config.shape = shape;
  config.normalises_expert_weights = shape.moe.experts > 0;
  config.norm_epsilon = kEpsilon;
  config.attention_scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
  SetWindows(shape, config);
  const bool llama = shape.learned_positions == 0 && shape.norm == NormKind::kRmsNorm &&
                     shape.gated_mlp && shape.embedding_width == 0;
  const bool gpt2 = shape.learned_positions > 0 && shape.norm == NormKind::kLayerNorm &&
                    !shape.gated_mlp && !shape.qk_norm && shape.moe.experts == 0;
  const std::int32_t norms = shape.norms_per_layer;
  if (llama && (norms == 2 || norms == 4)) {
    SetLlamaLike(shape, config);
  } else if (gpt2 && norms == 2) {
    SetGpt2OrOpt(shape, config);
  } else {
    Refuse(shape,
           "is of no family that can be computed; allowed: rotary positions with RMSNorm and a "
           "gated MLP or a mixture of such, or learned positions with LayerNorm and a plain MLP");
  }
  return config;
}

}  // namespace twin::exec
