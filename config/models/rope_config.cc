#include "config/models/rope_config.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "config/models/families.h"
#include "core/printable.h"

namespace twin {
namespace {

using Scaling = RopeConfig::Scaling;

constexpr std::string_view kTypes = "default, linear, llama3, yarn, dynamic or longrope";

void ReadLlama3(const ConfigFields& fields, RopeConfig& rope) {
  rope.factor = fields.Positive("factor");
  rope.low_factor = fields.Positive("low_freq_factor");
  rope.high_factor = fields.Positive("high_freq_factor");
  rope.original_positions = fields.Size("original_max_position_embeddings");
  if (rope.high_factor <= rope.low_factor) {
    fields.Refuse("high_freq_factor must exceed low_freq_factor");
  }
}

// The magnitude that the YaRN paper recommends for a context extended by `factor`.
double YarnMagnitude(double factor, double weight) {
  return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1;
}

void ReadYarn(const ConfigFields& fields, std::int32_t max_position, RopeConfig& rope) {
  rope.factor = fields.Positive("factor");
  rope.original_positions =
      fields.OptionalSize("original_max_position_embeddings").value_or(max_position);
  rope.beta_fast = fields.OptionalPositive("beta_fast").value_or(rope.beta_fast);
  rope.beta_slow = fields.OptionalPositive("beta_slow").value_or(rope.beta_slow);
  rope.truncates = fields.Flag("truncate", true);
  const auto weight = fields.OptionalPositive("mscale");
  const auto weight_all = fields.OptionalPositive("mscale_all_dim");
  rope.magnitude = YarnMagnitude(rope.factor, 1);
  if (weight && weight_all) {
    rope.magnitude = YarnMagnitude(rope.factor, *weight) / YarnMagnitude(rope.factor, *weight_all);
  }
  rope.magnitude = fields.OptionalPositive("attention_factor").value_or(rope.magnitude);
  if (rope.theta <= 1) fields.Refuse("yarn needs a rope_theta above 1");
}

constexpr std::array kScalings = {std::pair{std::string_view("default"), Scaling::kNone},
                                  std::pair{std::string_view("linear"), Scaling::kLinear},
                                  std::pair{std::string_view("llama3"), Scaling::kLlama3},
                                  std::pair{std::string_view("yarn"), Scaling::kYarn},
                                  std::pair{std::string_view("dynamic"), Scaling::kDynamic},
                                  std::pair{std::string_view("longrope"), Scaling::kLongRope}};

std::optional<Scaling> FindScaling(std::string_view type, bool longrope_has_old_names) {
  if (longrope_has_old_names && (type == "su" || type == "yarn")) return Scaling::kLongRope;
  for (const auto& [name, scaling] : kScalings) {
    if (name == type) return scaling;
  }
  return std::nullopt;
}

void ReadScaling(const ConfigFields& fields, Scaling scaling, std::int32_t max_position,
                 RopeConfig& rope) {
  rope.scaling = scaling;
  rope.names_original = fields.Has("original_max_position_embeddings");
  if (rope.scaling == Scaling::kLinear) rope.factor = fields.Positive("factor");
  if (rope.scaling == Scaling::kDynamic || rope.scaling == Scaling::kLongRope) {
    rope.factor = fields.OptionalPositive("factor").value_or(1);
  }
  if (rope.scaling == Scaling::kLlama3) ReadLlama3(fields, rope);
  if (rope.scaling == Scaling::kYarn) ReadYarn(fields, max_position, rope);
}

// LongRoPE's original positions: transformers keep them beside the scaling, and use Phi-3's
// positions if they are absent.
double OriginalOfLongRope(const ConfigFields& config, const ConfigFields& scaling) {
  constexpr std::int32_t kPhi3Positions = 4096;
  const char* const field = "original_max_position_embeddings";
  const auto beside = config.OptionalSize(field);
  return beside ? *beside : scaling.OptionalSize(field).value_or(kPhi3Positions);
}

std::optional<std::string> TypeOf(const ConfigFields& fields) {
  const auto type = fields.Text("rope_type");
  return type ? type : fields.Text("type");  // the older key
}

}  // namespace

RopeConfig ReadRopeConfig(const ConfigFields& config, const ModelFamily& family,
                          std::int32_t max_position) {
  RopeConfig rope;
  const auto parameters = config.Object("rope_parameters");
  auto theta = parameters ? parameters->OptionalPositive("rope_theta") : std::nullopt;
  if (!theta) theta = config.OptionalPositive("rope_theta");
  rope.theta = theta.value_or(family.rope_theta);
  const auto scaling = parameters ? parameters : config.Object("rope_scaling");
  if (!scaling) return rope;
  const auto type = TypeOf(*scaling);
  if (!type && !parameters) {
    scaling->Refuse(fmt::format("rope_type is missing, must be {}", kTypes));
  }
  const std::string name = type.value_or("default");
  const auto kind = FindScaling(name, family.longrope_has_old_names);
  if (!kind) {
    scaling->Refuse(fmt::format("rope type '{}' is unknown, must be {}", Printable(name), kTypes));
  }
  ReadScaling(*scaling, *kind, max_position, rope);
  if (rope.scaling == Scaling::kLongRope) {
    rope.original_positions = OriginalOfLongRope(config, *scaling);
  }
  return rope;
}

RopeConfig ReadContextScaling(const ConfigFields& config, std::int32_t max_position) {
  const auto parameters = config.Object("rope_parameters");
  const auto shared = parameters ? parameters : config.Object("rope_scaling");
  // Layers with and without a window may have parameters of their own.
  const auto of_full = shared ? shared->Object("full_attention") : std::nullopt;
  const auto& scaling = of_full ? of_full : shared;
  RopeConfig rope;
  if (!scaling) return rope;
  const auto kind = FindScaling(TypeOf(*scaling).value_or("default"), false);
  if (kind) ReadScaling(*scaling, *kind, max_position, rope);
  return rope;
}

std::int32_t ReadRotaryDimensions(const ConfigFields& config, std::int32_t head_dim,
                                  double absent) {
  const auto parameters = config.Object("rope_parameters");
  auto share = parameters ? parameters->OptionalPositive("partial_rotary_factor") : std::nullopt;
  if (!share) share = config.OptionalPositive("partial_rotary_factor");
  const double dimensions = std::floor(head_dim * share.value_or(absent));
  if (dimensions < 2 || dimensions > head_dim || std::fmod(dimensions, 2) != 0) {
    config.Refuse(fmt::format(
        "head_dim {} times partial_rotary_factor {} must be an even number of rotary dimensions",
        head_dim, share.value_or(absent)));
  }
  return static_cast<std::int32_t>(dimensions);
}

}  // namespace twin
