#include "apps/serve/metrics/prometheus_text.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "core/check.h"

namespace twin::serve {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricType;

void AppendEscaped(std::string& out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\\' || (quotes && c == '"')) {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
}

std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

void AppendSample(std::string& out, std::string_view name, const ClientMetric& metric,
                  std::string_view bound, const std::string& value) {
  out += name;
  const char* separator = "{";
  const auto label = [&](std::string_view key, std::string_view text) {
    out += separator;
    out += key;
    out += "=\"";
    AppendEscaped(out, text, true);
    out += '"';
    separator = ",";
  };
  for (const auto& [key, text] : metric.label) label(key, text);
  if (!bound.empty()) label("le", bound);
  if (*separator == ',') out += '}';
  out += ' ';
  out += value;
  out += '\n';
}

void AppendHistogram(std::string& out, const std::string& name, const ClientMetric& metric) {
  const auto& histogram = metric.histogram;
  for (const auto& bucket : histogram.bucket) {
    if (std::isinf(bucket.upper_bound)) continue;
    AppendSample(out, name + "_bucket", metric, NumberText(bucket.upper_bound),
                 fmt::to_string(bucket.cumulative_count));
  }
  const std::string count = fmt::to_string(histogram.sample_count);
  AppendSample(out, name + "_bucket", metric, "+Inf", count);
  AppendSample(out, name + "_sum", metric, "", NumberText(histogram.sample_sum));
  AppendSample(out, name + "_count", metric, "", count);
}

// Without quantiles, as Python's clients write them.
void AppendSummary(std::string& out, const std::string& name, const ClientMetric& metric) {
  AppendSample(out, name + "_sum", metric, "", NumberText(metric.summary.sample_sum));
  AppendSample(out, name + "_count", metric, "", fmt::to_string(metric.summary.sample_count));
}

std::string_view TypeName(MetricType type) {
  switch (type) {
    case MetricType::Counter:
      return "counter";
    case MetricType::Gauge:
      return "gauge";
    case MetricType::Histogram:
      return "histogram";
    case MetricType::Summary:
      return "summary";
    case MetricType::Untyped:
      break;
  }
  CHECK(false);  // the front has none
}

}  // namespace

std::string PrometheusText(const std::vector<prometheus::MetricFamily>& families) {
  std::string out;
  for (const prometheus::MetricFamily& family : families) {
    if (family.metric.empty()) continue;
    out += "# HELP " + family.name + " ";
    AppendEscaped(out, family.help, false);
    out += fmt::format("\n# TYPE {} {}\n", family.name, TypeName(family.type));
    for (const ClientMetric& metric : family.metric) {
      if (family.type == MetricType::Histogram) {
        AppendHistogram(out, family.name, metric);
      } else if (family.type == MetricType::Summary) {
        AppendSummary(out, family.name, metric);
      } else {
        const double value =
            family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value;
        AppendSample(out, family.name, metric, "", NumberText(value));
      }
    }
  }
  return out;
}

}  // namespace twin::serve
