#include "run/many/bounds.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "core/input_error.h"
#include "core/nearest_names.h"
#include "core/number_text.h"
#include "core/printable.h"
#include "run/record/metric_catalog.h"

namespace twin::run {
namespace {

std::string_view Stripped(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

[[noreturn]] void RefuseBound(std::string_view bound, const std::string& what) {
  throw InputError(InputError::Kind::kUsage,
                   fmt::format("bound \"{}\"", Printable(std::string(bound))), what);
}

MetricBound ParseBound(std::string_view text) {
  const std::size_t at = text.find_first_of("<>");
  if (at == std::string_view::npos)
    RefuseBound(text, "compares nothing; allowed: METRIC<=NUMBER or METRIC>=NUMBER, joined by &&");
  MetricBound bound;
  bound.metric = MetricKey(Stripped(text.substr(0, at)));
  bound.kind = text[at] == '<' ? MetricBound::Kind::kAtMost : MetricBound::Kind::kAtLeast;
  std::string_view number = text.substr(at + 1);
  if (number.starts_with('=')) number.remove_prefix(1);
  number = Stripped(number);
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), bound.limit);
  if (error != std::errc{} || end != number.data() + number.size() || !std::isfinite(bound.limit))
    RefuseBound(text, "has no number on its right side; allowed: METRIC<=NUMBER");
  const auto metric = FindMetric(bound.metric);
  if (!metric) {
    std::vector<std::string_view> names;
    for (const Metric& known : MetricCatalog()) names.push_back(known.name);
    RefuseBound(text, fmt::format("no metric \"{}\"; nearest: {}", Printable(bound.metric),
                                  NearestNames(bound.metric, names)));
  }
  if (metric->unit.empty()) RefuseBound(text, fmt::format("{} is a text", bound.metric));
  return bound;
}

}  // namespace

std::string MetricBound::text() const {
  return fmt::format("{}{}{}", metric, kind == Kind::kAtMost ? "<=" : ">=", ShortestText(limit));
}

double JudgedValue(const Summary& summary, const MetricBound& bound) {
  const double value = summary.Number(bound.metric);
  const std::optional<double> unanswered_max = UnansweredMax(bound.metric);
  if (!unanswered_max || bound.kind == MetricBound::Kind::kAtLeast) return value;
  const std::size_t key_size = WithoutPrefix(bound.metric).size();
  const std::string prefix = bound.metric.substr(0, bound.metric.size() - key_size);
  const double unanswered = summary.Number(prefix + "unanswered_share");
  return unanswered > *unanswered_max ? std::numeric_limits<double>::quiet_NaN() : value;
}

std::vector<MetricBound> ParseBounds(std::string_view text) {
  std::vector<MetricBound> bounds;
  for (;;) {
    const std::size_t end = text.find("&&");
    bounds.push_back(ParseBound(Stripped(text.substr(0, end))));
    if (end == std::string_view::npos) return bounds;
    text.remove_prefix(end + 2);
  }
}

}  // namespace twin::run
