// Source of the fields: the configuration and modelling classes of transformers 5.17.
#include "config/models/layered_computation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "config/models/families.h"
#include "config/models/rope_config.h"
#include "core/layer_groups.h"

namespace twin {
namespace {

void RequireValue(const ConfigFields& config, const char* field, bool sound, const char* allowed) {
  if (!sound)
    config.Refuse(fmt::format("{} is of a value that is not computed, must be {}", field, allowed));
}

float ScaleOf(const ConfigFields& config) {
  return static_cast<float>(config.OptionalPositive("routed_scaling_factor").value_or(1));
}

// Expert groups: n_group, of which topk_group are kept.
void ReadGroups(const ConfigFields& config, std::int32_t best_of_group, ModelConfig& model) {
  const std::int32_t experts = MostExperts(model.shape);
  RoutingConfig& routing = model.routing;
  routing.groups = config.OptionalSize("n_group").value_or(1);
  routing.groups_kept = config.OptionalSize("topk_group").value_or(1);
  if (routing.groups == 1) {
    routing.groups_kept = 1;
    return;
  }
  routing.best_of_group = best_of_group;
  if (experts % routing.groups != 0 || experts / routing.groups < best_of_group) {
    config.Refuse(fmt::format("n_group {} must divide the {} experts into groups of at least {}",
                              routing.groups, experts, best_of_group));
  }
  const std::int32_t chosen = config.Size("num_experts_per_tok");
  if (routing.groups_kept > routing.groups ||
      chosen > experts / routing.groups * routing.groups_kept) {
    config.Refuse(fmt::format("topk_group is {}, must be at most n_group {} and leave {} experts",
                              routing.groups_kept, routing.groups, chosen));
  }
}

// YaRN lengthens the scores of latent attention by the square of the magnitude that mscale_all_dim
// gives.
double YarnScoreFactor(const ConfigFields& config) {
  const auto parameters = config.Object("rope_parameters");
  const auto scaling = parameters ? parameters : config.Object("rope_scaling");
  if (!scaling) return 1;
  const double weight = scaling->OptionalPositive("mscale_all_dim").value_or(0);
  const double factor = scaling->OptionalPositive("factor").value_or(1);
  if (weight == 0 || factor <= 1) return 1;
  const double magnitude = 0.1 * weight * std::log(factor) + 1;
  return magnitude * magnitude;
}

void ReadLatent(const ConfigFields& config, ModelConfig& model) {
  const LatentSpec& latent = *model.shape.latent;
  model.rotary_dimensions = latent.rope_dim;
  if (latent.rope_dim % 2 != 0) {
    config.Refuse(fmt::format("qk_rope_head_dim is {}, must be even", latent.rope_dim));
  }
  const double key = latent.nope_dim + latent.rope_dim;
  model.attention_scale = static_cast<float>(YarnScoreFactor(config) / std::sqrt(key));
}

// The size of the heads that attend to keys, which is one in all layers.
std::int32_t HeadDimOf(const ModelSpec& shape) {
  std::int32_t head = 0;
  for (const LayerGroup& group : OrderedLayers(shape)) head = std::max(head, group.layer.head_dim);
  return head;
}

// For each layer, its window.
std::vector<std::int32_t> WindowsOf(const ModelSpec& shape) {
  std::vector<std::int32_t> windows;
  for (const LayerSpec& layer : LayerList(shape)) windows.push_back(layer.sliding_window);
  return windows;
}

}  // namespace

void ReadDeepSeekV2Computation(const ConfigFields& config, ModelConfig& model) {
  ReadLatent(config, model);
  model.rotates_neighbours = true;
  const std::string method = config.Text("topk_method").value_or("greedy");
  const std::string score = config.Text("scoring_func").value_or("softmax");
  RequireValue(config, "topk_method", method == "greedy" || method == "group_limited_greedy",
               "greedy or group_limited_greedy");
  RequireValue(config, "scoring_func", score == "softmax", "softmax");
  RequireValue(config, "norm_topk_prob", !config.Flag("norm_topk_prob", false), "false");
  if (method == "group_limited_greedy") ReadGroups(config, 1, model);
  model.routing.scale = ScaleOf(config);
}

void ReadDeepSeekV3Computation(const ConfigFields& config, ModelConfig& model) {
  ReadLatent(config, model);
  model.rotates_neighbours = config.Flag("rope_interleave", true);
  const std::string method = config.Text("topk_method").value_or("noaux_tc");
  const std::string score = config.Text("scoring_func").value_or("sigmoid");
  RequireValue(config, "topk_method", method == "noaux_tc", "noaux_tc");
  RequireValue(config, "scoring_func", score == "sigmoid", "sigmoid");
  model.routing.sigmoid = true;
  model.normalises_expert_weights = config.Flag("norm_topk_prob", true);
  ReadGroups(config, 2, model);
  model.routing.scale = ScaleOf(config);
}

void ReadGptOssComputation(const ConfigFields& config, ModelConfig& model) {
  // Softmax over the chosen experts alone.
  model.normalises_expert_weights = true;
  model.gate_limit = static_cast<float>(config.OptionalPositive("swiglu_limit").value_or(7));
}

void ReadQwenHybridComputation(const ConfigFields& config, ModelConfig& model) {
  model.norm_gain_offset = 1;
  model.normalises_expert_weights = config.Flag("norm_topk_prob", true);
  for (const LayerGroup& group : OrderedLayers(model.shape)) {
    if (!group.layer.recurrent) continue;
    const RecurrentSpec& delta = *group.layer.recurrent;
    if (delta.value_heads % delta.key_heads != 0 || delta.convolution < 1) {
      config.Refuse(fmt::format(
          "linear_num_value_heads {} must be a multiple of linear_num_key_heads {}, and "
          "linear_conv_kernel_dim {} positive",
          delta.value_heads, delta.key_heads, delta.convolution));
    }
  }
}

void ReadOlmo2Computation(const ConfigFields& /*config*/, ModelConfig& model) {
  model.norm_placement = NormPlacement::kBehindHalf;
}

void ReadMiniMaxM2Computation(const ConfigFields& config, ModelConfig& model) {
  model.routing.sigmoid = true;
  model.normalises_expert_weights = true;
  const std::string score = config.Text("scoring_func").value_or("sigmoid");
  RequireValue(config, "scoring_func", score == "sigmoid", "sigmoid");
  const auto rotary = config.OptionalSize("rotary_dim");
  if (!rotary) return;
  if (*rotary > model.shape.head_dim || *rotary % 2 != 0) {
    config.Refuse(fmt::format("rotary_dim is {}, must be even and at most head_dim {}", *rotary,
                              model.shape.head_dim));
  }
  model.rotary_dimensions = *rotary;
}

void ReadLayeredComputation(const ConfigFields& config, const ModelFamily& family,
                            ModelConfig& model) {
  model.is_computed = family.read_computation != nullptr;
  if (!model.is_computed) {
    model.rope = ReadContextScaling(config, model.shape.max_position);
    return;
  }
  model.naming = family.naming;
  model.layer_windows = WindowsOf(model.shape);
  model.norm_epsilon =
      static_cast<float>(config.OptionalPositive("rms_norm_eps").value_or(family.norm_epsilon));
  const std::string activation = config.Text("hidden_act").value_or("silu");
  RequireValue(config, "hidden_act", activation == "silu" || activation == "swish", "silu");
  model.rope = ReadRopeConfig(config, family, model.shape.max_position);
  if (!model.shape.latent) {
    const std::int32_t head = HeadDimOf(model.shape);
    model.rotary_dimensions = ReadRotaryDimensions(config, head, family.rotary_share);
    model.attention_scale = 1 / std::sqrt(static_cast<float>(head));
  }
  family.read_computation(config, model);
  config.RefuseUnknownResults();
}

}  // namespace twin
