#include <algorithm>
#include <sstream>

#include "apps/validate/svg_chart.h"
#include "apps/validate/validation_report.h"
#include "run/html_text.h"

namespace twin::run {
namespace {

constexpr const char* kMeasured = "#1f77b4";
constexpr const char* kPredicted = "#d62728";
constexpr const char* kKinds[] = {"#ff7f0e", "#1f77b4", "#2ca02c"};  // of kStepKinds

constexpr const char* kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<style>
body { font: 14px sans-serif; max-width: 960px; margin: 2em auto; color: #222; }
svg { font: 11px sans-serif; background: #fff; }
svg .g { stroke: #ddd; fill: none; }
svg .l { fill: none; stroke-width: 1.4; }
svg .d { stroke-width: 3; stroke-linecap: round; stroke-opacity: 0.5; fill: none; }
svg .t { font-weight: bold; font-size: 13px; }
pre { background: #f5f5f5; padding: 1em; overflow-x: auto; }
</style>
)";

Chart StepScatter(const Validation& validation) {
  Chart chart{.title = "Device times of steps, recorded compositions",
              .x_label = "measured, ms",
              .y_label = "predicted, ms",
              .log_x = true,
              .log_y = true,
              .diagonal = true,
              .series = {}};
  for (std::size_t kind = 0; kind < std::size(kStepKinds); ++kind) {
    ChartSeries series{kStepKinds[kind], kKinds[kind], ChartSeries::Mark::kPoints, false, {}};
    for (const StepPoint& point : validation.points) {
      if (point.kind == kind) series.points.emplace_back(point.measured_ms, point.predicted_ms);
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  return chart;
}

ChartSeries Distribution(std::vector<double> values, const char* label, const char* colour,
                         bool dashed) {
  std::sort(values.begin(), values.end());
  ChartSeries series{label, colour, ChartSeries::Mark::kSteps, dashed, {}};
  for (std::size_t i = 0; i < values.size(); ++i) {
    series.points.emplace_back(values[i],
                               static_cast<double>(i + 1) / static_cast<double>(values.size()));
  }
  return series;
}

template <class Values>
Chart Distributions(const Validation& validation, const char* title, Values values) {
  Chart chart{.title = title, .x_label = "ms", .y_label = "share of requests", .series = {}};
  for (std::size_t i = 0; i < validation.measured.size(); ++i) {
    chart.series.push_back(Distribution(values(validation.measured[i]),
                                        i == 0 ? "measured" : "measured again", kMeasured, i > 0));
  }
  chart.series.push_back(
      Distribution(values(validation.predicted), "predicted", kPredicted, false));
  return chart;
}

template <class Value>
Chart OverTime(const Validation& validation, const char* title, const char* unit, Value value) {
  Chart chart{.title = title, .x_label = "time, s", .y_label = unit, .series = {}};
  const auto add = [&](const RunCurves& curves, const char* label, const char* colour) {
    ChartSeries series{label, colour, ChartSeries::Mark::kSteps, false, {}};
    for (const RunCurves::LoadPoint& point : curves.load()) {
      series.points.emplace_back(point.seconds, value(point.load));
    }
    chart.series.push_back(std::move(series));
  };
  add(validation.measured.front(), "measured", kMeasured);
  add(validation.predicted, "predicted", kPredicted);
  return chart;
}

std::string Causes(const Validation& validation, const char* name) {
  for (const MetricComparison& metric : validation.metrics) {
    if (metric.name != name) continue;
    std::vector<Bar> bars;
    for (const Contribution& part : metric.attribution) bars.push_back({part.cause, part.amount});
    bars.push_back({"together", metric.predicted - metric.measured});
    return SvgBars("Error of " + metric.name + " by cause", "ms", bars);
  }
  return "";
}

}  // namespace

std::string ValidationHtml(const Validation& validation) {
  std::ostringstream page;
  page << kHead << "<title>" << HtmlText(validation.name) << "</title></head><body>\n<h1>"
       << HtmlText(validation.name) << ": predicted and measured</h1>\n<pre>";
  std::ostringstream text;
  WriteValidationText(text, validation);
  page << HtmlText(text.str()) << "</pre>\n";
  page << Svg(StepScatter(validation));
  page << Svg(Distributions(validation, "Time to first token",
                            [](const RunCurves& curves) { return curves.ttft_ms(); }));
  page << Svg(Distributions(validation, "Time per output token",
                            [](const RunCurves& curves) { return curves.tpot_ms(); }));
  page << Svg(Distributions(validation, "End to end",
                            [](const RunCurves& curves) { return curves.e2el_ms(); }));
  page << Svg(OverTime(validation, "Running requests", "requests",
                       [](const Load& load) { return double{1} * load.running; }));
  page << Svg(OverTime(validation, "Waiting requests", "requests",
                       [](const Load& load) { return double{1} * load.waiting; }));
  page << Svg(OverTime(validation, "KV blocks held or reserved", "blocks",
                       [](const Load& load) { return double{1} * load.used_blocks; }));
  for (const char* name : {"mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms"}) {
    page << Causes(validation, name);
  }
  page << "</body></html>\n";
  return page.str();
}

}  // namespace twin::run
