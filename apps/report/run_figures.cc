#include "apps/report/run_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/statistics.h"
#include "run/many/output_statistics.h"

namespace twin::run {
namespace {

constexpr std::size_t kWindows = 60;
constexpr std::size_t kBatchWindows = 400;
constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

struct NamedColumn {
  const char* column;
  const char* title;
};
constexpr std::array kLatencies = {NamedColumn{"ttft_ms", "time to first token"},
                                   NamedColumn{"tpot_ms", "time per output token"},
                                   NamedColumn{"e2el_ms", "end-to-end latency"}};

double LastFinite(const std::vector<double>& values) {
  double last = 0;
  for (const double value : values) {
    if (std::isfinite(value)) last = std::max(last, value);
  }
  return last;
}

// The curve of a distribution: values that are positive, ascending, against their share.
FigureLine Distribution(const std::string& name, const std::vector<double>& values) {
  FigureLine line{.name = name, .x = {}, .y = {}, .low = {}, .high = {}, .hollow = {}};
  for (const double value : values) {
    if (value > 0) line.x.push_back(value);
  }
  std::ranges::sort(line.x);
  for (std::size_t i = 0; i < line.x.size(); ++i) {
    line.y.push_back(static_cast<double>(i + 1) / static_cast<double>(line.x.size()));
  }
  return line;
}

// Quantiles of the gaps between all tokens, from the summary.
FigureLine GapQuantiles(const ReportedRun& run) {
  constexpr std::array<std::pair<const char*, double>, 6> kQuantiles = {
      {{"min", 0}, {"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"max", 1}}};
  FigureLine line{.name = run.name, .x = {}, .y = {}, .low = {}, .high = {}, .hollow = {}};
  for (const auto& [name, share] : kQuantiles) {
    const std::string key = fmt::format("{}_itl_ms", name);
    const SummaryValue* value = run.summary.Find(key);
    if (value == nullptr || run.summary.Number(key) <= 0) continue;
    line.x.push_back(run.summary.Number(key));
    line.y.push_back(share);
  }
  return line;
}

// The index of the part in which a time lies, of `windows` equal parts of 0 to `end`. REQUIRES: 0
// <= time <= end.
std::size_t WindowOf(double time, double end, std::size_t windows) {
  return std::min(static_cast<std::size_t>(time / end * static_cast<double>(windows)), windows - 1);
}

// The median latency of the requests that arrived in each window.
FigureLine MedianOverTime(const ReportedRun& run, const char* column) {
  const std::vector<double> arrivals = run.requests->Times("arrival_s");
  const std::vector<double> values = run.requests->Numbers(column);
  FigureLine line{.name = run.name, .x = {}, .y = {}, .low = {}, .high = {}, .hollow = {}};
  if (values.empty()) return line;
  const double end = std::max(LastFinite(arrivals), 1e-9);
  std::vector<std::vector<double>> windows(kWindows);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    windows[WindowOf(arrivals[i], end, kWindows)].push_back(values[i]);
  }
  for (std::size_t i = 0; i < kWindows; ++i) {
    line.x.push_back(end * (static_cast<double>(i) + 0.5) / kWindows);
    line.y.push_back(windows[i].empty() ? kNothing : Median(windows[i]));
  }
  return line;
}

void AddDistributions(Page& page, const std::vector<ReportedRun>& runs) {
  for (const NamedColumn& latency : kLatencies) {
    Figure figure(fmt::format("Distribution: {}", latency.title),
                  {fmt::format("{} (ms)", latency.title), true, false, ""},
                  {"share of requests", false, true, ""});
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (!runs[i].requests) continue;
      const FigureLine line = Distribution(runs[i].name, runs[i].requests->Numbers(latency.column));
      if (!line.x.empty()) figure.AddSteps(line, i);
    }
    page.Add(figure);
  }
  Figure gaps("Distribution: gaps between tokens (ITL)",
              {"gap between two tokens of a request (ms)", true, false, ""},
              {"share of gaps", false, true, ""});
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const FigureLine line = GapQuantiles(runs[i]);
    if (!line.x.empty()) gaps.AddLine(line, i);
  }
  gaps.Note("Quantiles over all tokens: smallest, 50, 90, 95, 99 %, largest.");
  page.Add(gaps);
}

FigureLine SeriesLine(const ReportedRun& run, const char* column, double factor) {
  FigureLine line{.name = run.name,
                  .x = run.series->Times("time_s"),
                  .y = run.series->Numbers(column),
                  .low = {},
                  .high = {},
                  .hollow = {}};
  for (double& value : line.y) value *= factor;
  return line;
}

void AddBatches(Page& page, const ReportedRun& run, bool several) {
  const std::vector<double> ends = run.steps->Times("finished_s");
  const std::vector<double> decode = run.steps->Times("decode_tokens");
  const std::vector<double> prefill = run.steps->Times("prefill_tokens");
  if (ends.empty()) return;
  const double end = std::max(LastFinite(ends), 1e-9);
  std::array<std::vector<double>, 2> sums;
  std::vector<double> counts(kBatchWindows);
  std::vector<double> times(kBatchWindows);
  for (std::vector<double>& sum : sums) sum.resize(kBatchWindows);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const std::size_t at = WindowOf(ends[i], end, kBatchWindows);
    sums[0][at] += decode[i];
    sums[1][at] += prefill[i];
    ++counts[at];
  }
  for (std::size_t i = 0; i < kBatchWindows; ++i) {
    times[i] = end * static_cast<double>(i) / kBatchWindows;
    for (std::vector<double>& sum : sums) sum[i] = counts[i] > 0 ? sum[i] / counts[i] : 0;
  }
  Figure figure(several ? fmt::format("Tokens per step: {}", run.name) : "Tokens per step",
                {"time (s)", false, true, ""}, {"tokens per step", false, true, ""});
  figure.AddArea({"decode", times, sums[0], {}, {}, {}}, PaletteColour(0));
  figure.AddArea({"prefill", times, sums[1], {}, {}, {}}, PaletteColour(4));
  figure.Note("Mean of the steps in each 400th of the run.");
  page.Add(figure);
}

struct DrawnPart {
  const char* column;
  const char* title;
  std::size_t colour;
};
constexpr std::array kParts = {DrawnPart{"schedule_ms", "scheduling", 7},
                               DrawnPart{"build_ms", "inputs", 6},
                               DrawnPart{"gemm_ms", "GEMM", 0},
                               DrawnPart{"attention_ms", "attention", 1},
                               DrawnPart{"communication_ms", "communication", 3},
                               DrawnPart{"other_ms", "other kernels", 5},
                               DrawnPart{"sampling_ms", "sampling", 4},
                               DrawnPart{"delivery_ms", "delivery", 2}};

void AddParts(Page& page, const std::vector<ReportedRun>& runs) {
  std::vector<std::string> names;
  for (const ReportedRun& run : runs) {
    if (run.parts && run.parts->rows() > 0) names.push_back(run.name);
  }
  if (names.empty()) return;
  Figure figure("Where the time of a step goes", {"mean time per step (ms)", false, true, ""},
                {"", false, false, ""});
  for (const DrawnPart& part : kParts) {
    std::vector<double> means;
    for (const ReportedRun& run : runs) {
      if (!run.parts || run.parts->rows() == 0) continue;
      means.push_back(run.parts->Has(part.column) ? Mean(run.parts->Numbers(part.column)) : 0);
    }
    if (*std::ranges::max_element(means) > 0)
      figure.AddBars(part.title, names, means, PaletteColour(part.colour));
  }
  page.Add(figure);
}

}  // namespace

void AddLatencyFigures(Page& page, const std::vector<ReportedRun>& runs) {
  page.Heading("Latencies");
  for (const NamedColumn& latency : {kLatencies[0], kLatencies[1]}) {
    Figure figure(fmt::format("Over time: {}", latency.title),
                  {"time of arrival (s)", false, true, ""},
                  {fmt::format("{} (ms)", latency.title), false, true, ""});
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (!runs[i].has_arrivals()) continue;
      if (runs.size() == 1) {
        figure.AddPoints({"a request",
                          runs[i].requests->Times("arrival_s"),
                          runs[i].requests->Numbers(latency.column),
                          {},
                          {},
                          {}},
                         5);
      }
      figure.AddSteps(MedianOverTime(runs[i], latency.column), i);
    }
    figure.Note("Lines: median of the requests that arrived in each 60th of the run.");
    page.Add(figure);
  }
  AddDistributions(page, runs);
}

void AddLoadFigures(Page& page, const std::vector<ReportedRun>& runs) {
  struct Shown {
    const char* column;
    const char* title;
    const char* axis;
    double factor;
  };
  constexpr std::array kShown = {
      Shown{"running", "Running requests", "requests", 1},
      Shown{"waiting", "Waiting requests", "requests", 1},
      Shown{"kv_used_share", "KV cache in use", "share (%)", 100},
      Shown{"decode_tokens_per_s", "Output tokens per second", "tokens/s", 1}};
  if (std::ranges::none_of(runs, [](const ReportedRun& run) { return run.series.has_value(); })) {
    return;
  }
  page.Heading("Load");
  for (const Shown& shown : kShown) {
    Figure figure(shown.title, {"time (s)", false, true, ""}, {shown.axis, false, true, ""});
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (runs[i].series) figure.AddSteps(SeriesLine(runs[i], shown.column, shown.factor), i);
    }
    page.Add(figure);
  }
}

void AddStepFigures(Page& page, const std::vector<ReportedRun>& runs) {
  if (std::ranges::none_of(runs, [](const ReportedRun& run) { return run.steps || run.parts; })) {
    return;
  }
  page.Heading("Steps");
  for (const ReportedRun& run : runs) {
    if (run.steps) AddBatches(page, run, runs.size() > 1);
  }
  AddParts(page, runs);
}

}  // namespace twin::run
