#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "apps/page/curves.h"
#include "apps/page/figure.h"
#include "apps/page/page.h"
#include "apps/validate/validation_report.h"

namespace twin::run {
namespace {

// Looks of lines (figure.h): repeats have the colour of the first run.
constexpr std::size_t kMeasured = 0;
constexpr std::size_t kPredicted = 1;
constexpr std::size_t kEqual = 7;
constexpr std::size_t kMeasuredAgain = 8;

constexpr const char* kRaises = "#D55E00";
constexpr const char* kLowers = "#0072B2";

FigureLine Named(std::string name) {
  return {.name = std::move(name), .x = {}, .y = {}, .low = {}, .high = {}, .fills = {}};
}

Figure StepScatter(const Validation& validation) {
  Figure figure("Device times of steps, recorded compositions", {"measured, ms", true, false, ""},
                {"predicted, ms", true, false, ""});
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (std::size_t kind = 0; kind < std::size(kStepKinds); ++kind) {
    FigureLine line = Named(kStepKinds[kind]);
    for (const StepPoint& point : validation.points) {
      if (point.kind != kind) continue;
      line.x.push_back(point.measured_ms);
      line.y.push_back(point.predicted_ms);
      for (const double ms : {point.measured_ms, point.predicted_ms}) {
        if (ms > 0) least = std::min(least, ms);
        most = std::max(most, ms);
      }
    }
    if (!line.x.empty()) figure.AddPoints(line, kind);
  }
  if (least <= most) figure.AddLine({"equal", {least, most}, {least, most}, {}, {}, {}}, kEqual);
  return figure;
}

template <class Values>
Figure Distributions(const Validation& validation, const char* title, Values values) {
  Figure figure(title, {"ms", false, true, ""}, {"share of requests", false, true, ""});
  for (std::size_t i = 0; i < validation.measured.size(); ++i) {
    const char* const name = i == 0 ? "measured" : i == 1 ? "measured again" : "";
    figure.AddSteps(Distribution(name, values(validation.measured[i])),
                    i == 0 ? kMeasured : kMeasuredAgain);
  }
  figure.AddSteps(Distribution("predicted", values(validation.predicted)), kPredicted);
  return figure;
}

template <class Value>
Figure OverTime(const Validation& validation, const char* title, const char* unit, Value value) {
  Figure figure(title, {"time, s", false, true, ""}, {unit, false, true, ""});
  const auto add = [&](const RunCurves& curves, const char* name, std::size_t look) {
    FigureLine line = Named(name);
    for (const RunCurves::LoadPoint& point : curves.load()) {
      line.x.push_back(point.seconds);
      line.y.push_back(value(point.load));
    }
    figure.AddSteps(line, look);
  };
  add(validation.measured.front(), "measured", kMeasured);
  add(validation.predicted, "predicted", kPredicted);
  return figure;
}

Figure Causes(const MetricComparison& metric) {
  Figure figure(fmt::format("Error of {} by cause", metric.name), {"ms", false, false, ""},
                {"", false, false, ""});
  std::vector<std::string> labels;
  std::vector<double> raising;
  std::vector<double> lowering;
  const auto add = [&](const std::string& cause, double amount) {
    labels.push_back(fmt::format("{} {:+.4g} ms", cause, amount));
    raising.push_back(std::max(amount, 0.0));
    lowering.push_back(std::min(amount, 0.0));
  };
  for (const Contribution& part : metric.attribution) add(part.cause, part.amount);
  add("together", metric.predicted - metric.measured);
  figure.AddBars("raises the prediction", labels, raising, kRaises);
  figure.AddBars("lowers it", labels, lowering, kLowers);
  return figure;
}

}  // namespace

std::string ValidationHtml(const Validation& validation) {
  Page page(fmt::format("{}: predicted and measured", validation.name), PageFigures::kStatic);
  std::ostringstream text;
  WriteValidationText(text, validation);
  page.Text(text.str());
  page.Add(StepScatter(validation));
  page.Add(Distributions(validation, "Time to first token",
                         [](const RunCurves& curves) { return curves.ttft_ms(); }));
  page.Add(Distributions(validation, "Time per output token",
                         [](const RunCurves& curves) { return curves.tpot_ms(); }));
  page.Add(Distributions(validation, "End to end",
                         [](const RunCurves& curves) { return curves.e2el_ms(); }));
  page.Add(OverTime(validation, "Running requests", "requests",
                    [](const Load& load) { return double{1} * load.running; }));
  page.Add(OverTime(validation, "Waiting requests", "requests",
                    [](const Load& load) { return double{1} * load.waiting; }));
  page.Add(OverTime(validation, "KV blocks held or reserved", "blocks",
                    [](const Load& load) { return double{1} * load.used_blocks; }));
  for (const char* const name : {"mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms"}) {
    for (const MetricComparison& metric : validation.metrics) {
      if (metric.name == name) page.Add(Causes(metric));
    }
  }
  return page.Html();
}

}  // namespace twin::run
