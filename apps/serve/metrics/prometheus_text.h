// Prometheus' text format 0.0.4.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

namespace twin::serve {

inline constexpr const char* kPrometheusContentType = "text/plain; version=0.0.4; charset=utf-8";

// Counters, gauges, histograms, and summaries without quantiles as text. Unlike prometheus-cpp's
// own serializer it writes bounds of buckets as the Python clients do, le="1.0": a server below
// Prometheus 3 keeps le="1" and le="1.0" apart, and recording rules written for vLLM would find
// nothing.
std::string PrometheusText(const std::vector<prometheus::MetricFamily>& families);

}  // namespace twin::serve
