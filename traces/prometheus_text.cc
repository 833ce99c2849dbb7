#include "traces/prometheus_text.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "core/number_text.h"

namespace twin {
namespace {

void SkipSpaces(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
}

// Removes the characters up to a quote without a backslash before it, and that quote. nullopt
// without one.
std::optional<std::string> TakeQuoted(std::string_view& text) {
  std::string value;
  while (!text.empty() && text.front() != '"') {
    if (text.front() == '\\' && text.size() > 1) {
      text.remove_prefix(1);
      value += text.front() == 'n' ? '\n' : text.front();
    } else {
      value += text.front();
    }
    text.remove_prefix(1);
  }
  if (text.empty()) return std::nullopt;
  text.remove_prefix(1);
  return value;
}

// Removes a="b",...} from the front.
std::optional<std::map<std::string, std::string>> TakeLabels(std::string_view& text) {
  std::map<std::string, std::string> labels;
  while (true) {
    SkipSpaces(text);
    if (text.starts_with('}')) break;
    const std::size_t equal = text.find("=\"");
    if (equal == std::string_view::npos) return std::nullopt;
    std::string name(text.substr(0, equal));
    text.remove_prefix(equal + 2);
    std::optional<std::string> value = TakeQuoted(text);
    if (!value) return std::nullopt;
    labels.emplace(std::move(name), std::move(*value));
    SkipSpaces(text);
    if (text.starts_with(',')) text.remove_prefix(1);
  }
  text.remove_prefix(1);
  return labels;
}

}  // namespace

std::optional<double> ParseMetricValue(std::string_view text) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "+Inf" || text == "Inf") return kInfinity;
  if (text == "-Inf") return -kInfinity;
  if (text.starts_with('+')) text.remove_prefix(1);
  return NumberFrom<double>(text);
}

std::optional<MetricSample> ParseMetricSample(std::string_view line) {
  MetricSample sample;
  const std::size_t end = line.find_first_of("{ \t");
  if (end == std::string_view::npos || end == 0) return std::nullopt;
  sample.name = line.substr(0, end);
  line.remove_prefix(end);
  if (line.front() == '{') {
    line.remove_prefix(1);
    auto labels = TakeLabels(line);
    if (!labels) return std::nullopt;
    sample.labels = std::move(*labels);
  }
  SkipSpaces(line);
  const std::optional<double> value = ParseMetricValue(line.substr(0, line.find_first_of(" \t\r")));
  if (!value) return std::nullopt;
  sample.value = *value;
  return sample;
}

}  // namespace twin
