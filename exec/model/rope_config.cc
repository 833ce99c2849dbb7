#include "exec/model/rope_config.h"

#include <cmath>
#include <optional>
#include <string>

#include "core/printable.h"

namespace twin::exec {
namespace {

constexpr double kDefaultTheta = 10000;  // where configs of the first llama models say nothing

void ReadLlama3(const ConfigFields& fields, RopeConfig& rope) {
  rope.scaling = RopeConfig::Scaling::kLlama3;
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
  rope.scaling = RopeConfig::Scaling::kYarn;
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

void ReadScaling(const ConfigFields& fields, std::int32_t max_position, RopeConfig& rope) {
  auto type = fields.Text("rope_type");
  if (!type) type = fields.Text("type");  // the older key
  if (!type) fields.Refuse("rope_type is missing, must be default, linear, llama3 or yarn");
  if (*type == "default") return;
  if (*type == "linear") {
    rope.scaling = RopeConfig::Scaling::kLinear;
    rope.factor = fields.Positive("factor");
  } else if (*type == "llama3") {
    ReadLlama3(fields, rope);
  } else if (*type == "yarn") {
    ReadYarn(fields, max_position, rope);
  } else {
    fields.Refuse("rope type '" + Printable(*type) +
                  "' is not supported, must be default, linear, llama3 or yarn");
  }
}

}  // namespace

RopeConfig ReadRopeConfig(const ConfigFields& config, std::int32_t max_position) {
  RopeConfig rope;
  const auto parameters = config.Object("rope_parameters");
  auto theta = config.OptionalPositive("rope_theta");
  if (!theta && parameters) theta = parameters->OptionalPositive("rope_theta");
  rope.theta = theta.value_or(kDefaultTheta);
  if (parameters) {
    ReadScaling(*parameters, max_position, rope);
  } else if (const auto scaling = config.Object("rope_scaling")) {
    ReadScaling(*scaling, max_position, rope);
  }
  return rope;
}

std::int32_t ReadRotaryDimensions(const ConfigFields& config, std::int32_t head_dim) {
  auto share = config.OptionalPositive("partial_rotary_factor");
  const auto parameters = config.Object("rope_parameters");
  if (!share && parameters) share = parameters->OptionalPositive("partial_rotary_factor");
  const double dimensions = std::floor(head_dim * share.value_or(1));
  if (dimensions < 2 || dimensions > head_dim || std::fmod(dimensions, 2) != 0) {
    config.Refuse("head_dim " + std::to_string(head_dim) +
                  " (times partial_rotary_factor) must give an even number of rotary dimensions");
  }
  return static_cast<std::int32_t>(dimensions);
}

}  // namespace twin::exec
