#include "apps/validate/measured_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "apps/page/curves.h"
#include "apps/page/figure.h"
#include "apps/page/page.h"
#include "core/time.h"

namespace twin::apps {
namespace {

constexpr const char* kMeasuredName = "measured";
constexpr const char* kSimulatedName = "simulated";

struct DrawnLatency {
  const char* title;
  std::optional<Duration> BenchmarkRequest::*time;
};
constexpr DrawnLatency kDrawn[] = {{"time to first token", &BenchmarkRequest::ttft},
                                   {"end-to-end latency", &BenchmarkRequest::e2e}};

// NaN where it is not known.
std::vector<double> TimesMs(const std::vector<BenchmarkRequest>& requests,
                            const DrawnLatency& latency) {
  std::vector<double> times;
  for (const BenchmarkRequest& request : requests) {
    const std::optional<Duration>& time = request.*latency.time;
    times.push_back(time ? Milliseconds(*time) : std::numeric_limits<double>::quiet_NaN());
  }
  return times;
}

std::vector<double> SentSeconds(const std::vector<BenchmarkRequest>& requests) {
  std::vector<double> times;
  for (const BenchmarkRequest& request : requests) times.push_back(Seconds(request.sent));
  return times;
}

bool AnyKnown(const std::vector<double>& times) {
  return std::ranges::any_of(times, [](double time) { return time > 0; });
}

void AddPairs(run::Page& page, const DrawnLatency& latency, const std::vector<double>& measured,
              const std::vector<double>& simulated) {
  const std::string axis = fmt::format("{} (ms)", latency.title);
  run::Figure figure(fmt::format("Predicted against measured: {}", latency.title),
                     {fmt::format("measured {}", axis), true, false, ""},
                     {fmt::format("simulated {}", axis), true, false, ""});
  run::FigureLine points{.name = "a request", .x = {}, .y = {}, .low = {}, .high = {}, .fills = {}};
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (!(measured[i] > 0 && simulated[i] > 0)) continue;
    points.x.push_back(measured[i]);
    points.y.push_back(simulated[i]);
  }
  if (points.x.empty()) return;
  const auto [low, high] = std::ranges::minmax(points.x);
  figure.AddPoints(points, 0);
  figure.AddLine({"equal", {low, high}, {low, high}, {}, {}, {}}, 7);
  figure.Note("Below the line, the simulation is faster than the server.");
  page.Add(figure);
}

void AddDistributions(run::Page& page, const DrawnLatency& latency,
                      const std::vector<double>& measured, const std::vector<double>& simulated) {
  run::Figure figure(fmt::format("Distribution: {}", latency.title),
                     {fmt::format("{} (ms)", latency.title), true, false, ""},
                     {"share of requests", false, true, ""});
  figure.AddSteps(run::Distribution(kMeasuredName, measured), 0);
  figure.AddSteps(run::Distribution(kSimulatedName, simulated), 1);
  page.Add(figure);
}

void AddOverTime(run::Page& page, const DrawnLatency& latency, const MeasuredComparison& run,
                 const std::vector<double>& measured, const std::vector<double>& simulated) {
  run::Figure figure(fmt::format("Over time: {}", latency.title),
                     {"time of sending (s)", false, true, ""},
                     {fmt::format("{} (ms)", latency.title), false, true, ""});
  figure.AddSteps(run::MedianOverTime(kMeasuredName, SentSeconds(run.measured), measured), 0);
  figure.AddSteps(run::MedianOverTime(kSimulatedName, SentSeconds(run.simulated), simulated), 1);
  figure.Note("Median of the requests that were sent in each 60th of the run.");
  page.Add(figure);
}

void AddFigures(run::Page& page, const MeasuredComparison& run) {
  if (run.measured.empty()) {
    page.Paragraph("The file holds totals alone: there is no figure of its requests.");
    return;
  }
  if (!run.paired) {
    page.Paragraph(
        "The simulated requests are not the measured ones one by one: their arrivals were drawn, "
        "or some were not answered. Figures show the first draw.");
  }
  for (const DrawnLatency& latency : kDrawn) {
    const std::vector<double> measured = TimesMs(run.measured, latency);
    const std::vector<double> simulated = TimesMs(run.simulated, latency);
    if (!AnyKnown(measured) || !AnyKnown(simulated)) continue;
    if (run.paired) AddPairs(page, latency, measured, simulated);
    AddDistributions(page, latency, measured, simulated);
    if (run.has_times) AddOverTime(page, latency, run, measured, simulated);
  }
}

run::PageTable CellsOf(const Table& table) {
  run::PageTable cells{table.columns};
  for (const std::vector<TableCell>& row : table.rows) {
    std::vector<std::string>& texts = cells.emplace_back();
    for (const TableCell& cell : row) texts.push_back(cell.text);
  }
  return cells;
}

void AddList(run::Page& page, const char* title, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  page.Heading(title);
  for (const std::string& line : lines) page.Paragraph(line);
}

void AddEffects(run::Page& page, const std::vector<PartEffect>& effects, Variant::Kind kind) {
  const Table table = EffectTable(effects, kind);
  if (table.rows.empty()) return;
  page.Heading(EffectTitle(kind));
  page.Table(CellsOf(table));
}

void AddRun(run::Page& page, const NamedComparison& named) {
  const MeasuredComparison& run = named.comparison;
  page.Heading(named.name);
  page.Paragraph(fmt::format("Load: {}.", run.load));
  page.Paragraph(fmt::format("System: {}.", FactsText(run.facts)));
  page.Paragraph(fmt::format("Assumed: {}.", fmt::join(run.assumed, ", ")));
  page.Table(CellsOf(ErrorTable(run.errors, false)));
  if (run.steps) {
    page.Heading("Recorded steps");
    page.Table(CellsOf(StepTable(run.steps->classes)));
    for (const std::string& line : run.steps->lines) page.Paragraph(line);
  }
  AddList(page, "What explains the errors", run.explanation);
  AddList(page, "Notes", run.notes);
  page.Heading("Measured and simulated requests");
  AddFigures(page, run);
  AddEffects(page, run.effects, Variant::Kind::kPart);
  AddEffects(page, run.effects, Variant::Kind::kFact);
  AddList(page, "To know more next time, record", run.to_record);
}

}  // namespace

std::string MeasuredPage(std::span<const NamedComparison> runs) {
  run::Page page("Measured runs and their simulation");
  page.Paragraph("Error = simulated / measured - 1, with an interval of 95 %.");
  for (const NamedComparison& run : runs) AddRun(page, run);
  return page.Html();
}

}  // namespace twin::apps
