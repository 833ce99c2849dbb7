// Samples in Prometheus' text format, as servers answer them at /metrics.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace twin {

struct MetricSample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;  // NaN and infinities are allowed
};

// Reads a line such as `name{label="text"} 1.5`, perhaps with a time behind it. nullopt if it is
// malformed. Empty lines and comments are the caller's.
std::optional<MetricSample> ParseMetricSample(std::string_view line);

// A number as the format writes it: also NaN, +Inf, -Inf.
std::optional<double> ParseMetricValue(std::string_view text);

}  // namespace twin
