#include "apps/report/run_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "apps/page/curves.h"
#include "core/statistics.h"
#include "run/many/output_statistics.h"

namespace twin::run {
namespace {

constexpr std::size_t kBatchWindows = 400;

struct NamedColumn {
  const char* column;
  const char* title;
};
constexpr std::array kLatencies = {NamedColumn{"ttft_ms", "time to first token"},
                                   NamedColumn{"tpot_ms", "time per output token"},
                                   NamedColumn{"e2el_ms", "end-to-end latency"}};

// Quantiles of the gaps between all tokens, from the summary.
FigureLine GapQuantiles(const ReportedRun& run) {
  constexpr std::array<std::pair<const char*, double>, 6> kQuantiles = {
      {{"min", 0}, {"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"max", 1}}};
  FigureLine line{.name = run.name, .x = {}, .y = {}, .low = {}, .high = {}, .fills = {}};
  for (const auto& [name, share] : kQuantiles) {
    const std::string key = fmt::format("{}_itl_ms", name);
    const SummaryValue* value = run.summary.Find(key);
    if (value == nullptr || run.summary.Number(key) <= 0) continue;
    line.x.push_back(run.summary.Number(key));
    line.y.push_back(share);
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
                  .fills = {}};
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
      figure.AddSteps(MedianOverTime(runs[i].name, runs[i].requests->Times("arrival_s"),
                                     runs[i].requests->Numbers(latency.column)),
                      i);
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
