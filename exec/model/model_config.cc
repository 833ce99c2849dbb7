#include "exec/model/model_config.h"

#include <fmt/format.h>

#include "config/models/hf_config.h"
#include "config/models/stored_weights.h"
#include "core/input_error.h"

namespace twin::exec {
namespace {

// The part of the config that cannot be computed; empty if all can.
std::string NotComputed(const ModelConfig& model) {
  using Scaling = RopeConfig::Scaling;
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

}  // namespace

ModelConfig ReadModelConfig(const std::filesystem::path& path) {
  const bool is_directory = std::filesystem::is_directory(path);
  return Computed(ReadHfConfig(path), (is_directory ? path / "config.json" : path).string());
}

ModelConfig ParseModelConfig(std::string_view text, const std::string& where) {
  return Computed(ParseHfConfig(text, where), where);
}

}  // namespace twin::exec
