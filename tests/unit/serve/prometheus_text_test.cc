#include "apps/serve/metrics/prometheus_text.h"

#include <gtest/gtest.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cmath>

namespace twin::serve {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricType;

ClientMetric Gauge(double value) {
  ClientMetric metric;
  metric.gauge.value = value;
  return metric;
}

TEST(PrometheusText, EscapesLabelsAndHelp) {
  ClientMetric metric = Gauge(1);
  metric.label = {{"name", "a\"b\\c\nd"}};
  EXPECT_EQ(PrometheusText({{"x", "back\\slash\nfeed \"q\"", MetricType::Gauge, {metric}}}),
            "# HELP x back\\\\slash\\nfeed \"q\"\n# TYPE x gauge\n"
            "x{name=\"a\\\"b\\\\c\\nd\"} 1.0\n");
}

TEST(PrometheusText, SpellsSpecialValues) {
  EXPECT_EQ(PrometheusText(
                {{"x",
                  "h",
                  MetricType::Gauge,
                  {Gauge(NAN), Gauge(INFINITY), Gauge(-INFINITY), Gauge(0.25), Gauge(1e300)}}}),
            "# HELP x h\n# TYPE x gauge\nx NaN\nx +Inf\nx -Inf\nx 0.25\nx 1e+300\n");
}

// As Python's clients write them, which prometheus-cpp does not.
TEST(PrometheusText, WholeBoundsOfBucketsEndInPointZero) {
  prometheus::Registry registry;
  auto& family = prometheus::BuildHistogram().Name("t").Help("h").Register(registry);
  auto& histogram = family.Add({}, prometheus::Histogram::BucketBoundaries{0.5, 1, 10});
  histogram.Observe(0.7);
  histogram.Observe(20);
  EXPECT_EQ(PrometheusText(registry.Collect()),
            "# HELP t h\n# TYPE t histogram\n"
            "t_bucket{le=\"0.5\"} 0\nt_bucket{le=\"1.0\"} 1\nt_bucket{le=\"10.0\"} 1\n"
            "t_bucket{le=\"+Inf\"} 2\nt_sum 20.7\nt_count 2\n");
}

TEST(PrometheusText, LeavesOutFamiliesWithoutSamples) {
  EXPECT_EQ(PrometheusText({{"x", "h", MetricType::Counter, {}}}), "");
}

}  // namespace
}  // namespace twin::serve
