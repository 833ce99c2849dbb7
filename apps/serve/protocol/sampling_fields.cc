#include "apps/serve/protocol/sampling_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace twin::serve {
namespace {

// vLLM's smallest temperature that is not greedy: below it, probabilities overflow.
constexpr double kTemperatureMin = 0.01;
constexpr std::int64_t kTopKMax = std::numeric_limits<std::int32_t>::max();

// Refuses, or warns of, a value that no sampler reads.
void RequireGreedy(FieldReader& reader, std::string_view name, const run::ServedModel& model) {
  if (model.emulated) {
    reader.Warn(name);
  } else {
    reader.Fail(
        ApiErrorKind::kValue, name,
        fmt::format("{}: this model is decoded greedily; allowed: 0, or leave it out", name));
  }
}

}  // namespace

void ReadUnsampled(FieldReader& reader, std::string_view name, double inert,
                   const run::ServedModel& model) {
  const FieldReader::Json* value = reader.Find(name);
  if (value == nullptr || (value->is_number() && value->get<double>() == inert)) return;
  if ((value->is_object() || value->is_array()) && value->empty()) return;
  if (model.emulated) {
    reader.Warn(name);
  } else {
    reader.Fail(ApiErrorKind::kValue, name,
                fmt::format("{} is not served; allowed: {}, or leave it out", name, inert));
  }
}

void ReadSampling(FieldReader& reader, const SamplingRanges& ranges, const run::ServedModel& model,
                  run::Sampling& sampling) {
  const auto temperature =
      reader.Number("temperature", ranges.temperature_min, ranges.temperature_max, ranges.open);
  const auto top_p = reader.Number("top_p", 0, 1, ranges.open);
  const auto top_k = reader.Integer("top_k", ranges.open ? 1 : -1, kTopKMax);
  const auto min_p = reader.Number("min_p", 0, 1);
  if (top_p && *top_p == 0) {
    reader.Fail(ApiErrorKind::kValue, "top_p", "top_p is 0; allowed: above 0 and up to 1");
  }
  if (!model.samples) {
    if (temperature.value_or(0) != 0) RequireGreedy(reader, "temperature", model);
    if (top_p && *top_p != 1 && model.emulated) reader.Warn("top_p");
    if (top_k && *top_k > 0 && model.emulated) reader.Warn("top_k");
    if (min_p && *min_p != 0 && model.emulated) reader.Warn("min_p");
    return;
  }
  sampling.temperature = temperature.value_or(1.0);
  if (sampling.temperature == 0) return;  // greedy: the others have no effect
  sampling.temperature = std::max(sampling.temperature, kTemperatureMin);
  sampling.top_p = top_p.value_or(1);
  sampling.top_k = static_cast<std::int32_t>(std::max<std::int64_t>(0, top_k.value_or(0)));
  sampling.min_p = min_p.value_or(0);
}

}  // namespace twin::serve
