#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <set>

#include "apps/page/page.h"
#include "apps/report/csv_file.h"
#include "apps/report/report.h"
#include "core/input_error.h"
#include "core/number_text.h"
#include "run/record/metric_catalog.h"
#include "run/run_directory.h"

namespace twin::run {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLinesMax = 40;
constexpr std::size_t kTableRowsMax = 2000;

struct StudyFigure {
  std::string_view metric;
  std::string_view title;
  double factor;
};
constexpr std::array kFigures = {
    StudyFigure{"slo_attainment", "SLO attainment (% of requests)", 100},
    StudyFigure{"good_rate", "Goodput (requests/s)", 1},
    StudyFigure{"p99_ttft_ms", "p99 TTFT (ms)", 1},
    StudyFigure{"mean_ttft_ms", "Mean TTFT (ms)", 1},
    StudyFigure{"p99_tpot_ms", "p99 TPOT (ms)", 1},
    StudyFigure{"mean_tpot_ms", "Mean TPOT (ms)", 1},
    StudyFigure{"p99_itl_ms", "p99 ITL (ms)", 1},
    StudyFigure{"p99_e2el_ms", "p99 end-to-end latency (ms)", 1},
    StudyFigure{"completed_rate", "Throughput (requests/s)", 1},
    StudyFigure{"output_token_rate", "Output tokens/s", 1},
    StudyFigure{"mean_kv_used_share", "Mean KV cache use (%)", 100},
    StudyFigure{"prefix_hit_share", "Prefix-cache hit rate (%)", 100},
    StudyFigure{"preemptions", "Preemptions", 1}};

// summary.csv, and the roles of its columns in the figures.
struct StudyTable {
  CsvFile csv;
  std::vector<std::string> settings;  // columns that the study varies
  std::string x;                      // setting on the x axis; empty: none has two numbers
  std::vector<std::string> lines;     // names, in the order of the points
  std::vector<std::size_t> line_of;   // by point
};

std::string LastName(const std::string& path) { return path.substr(path.rfind('.') + 1); }

// The number of different numbers of a column; 0 if a cell is no number.
std::size_t DifferentNumbers(const CsvFile& csv, const std::string& column) {
  std::set<double> values;
  for (const std::string& text : csv.Texts(column)) {
    const std::optional<double> value = NumberFrom<double>(text);
    if (!value || !std::isfinite(*value)) return 0;
    values.insert(*value);
  }
  return values.size();
}

// The setting on the x axis: the rate if the study varies it, else the one with the most numbers.
std::string AxisOf(const CsvFile& csv, const std::vector<std::string>& settings) {
  std::string best;
  std::size_t most = 1;
  for (const std::string& setting : settings) {
    const std::size_t count = DifferentNumbers(csv, setting);
    if (count > 1 && LastName(setting) == "rate") return setting;
    if (count > most) {
      most = count;
      best = setting;
    }
  }
  return best;
}

StudyTable ReadStudyTable(const fs::path& study) {
  StudyTable table{CsvFile(study / "summary.csv"), {}, {}, {}, {}};
  const std::vector<std::string>& header = table.csv.header();
  const auto n = std::ranges::find(header, "n");
  if (header.front() != "point" || n == header.end()) {
    throw InputError(InputError::Kind::kData, (study / "summary.csv").string(),
                     "is no summary.csv of a study: it has no columns point and n");
  }
  if (table.csv.rows() == 0) {
    throw InputError(InputError::Kind::kUsage, study.string(), "has no point to show");
  }
  table.settings.assign(header.begin() + 1, n);
  table.x = AxisOf(table.csv, table.settings);
  std::vector<std::string> names(table.csv.rows());
  for (const std::string& setting : table.settings) {
    if (setting == table.x) continue;
    const std::vector<std::string> cells = table.csv.Texts(setting);
    for (std::size_t i = 0; i < names.size(); ++i) {
      names[i] += fmt::format("{}{}", names[i].empty() ? "" : ", ",
                              setting == "base" ? fs::path(cells[i]).stem().string()
                                                : LastName(setting) + " = " + cells[i]);
    }
  }
  for (const std::string& name : names) {
    const auto found = std::ranges::find(table.lines, name);
    table.line_of.push_back(static_cast<std::size_t>(found - table.lines.begin()));
    if (found == table.lines.end()) table.lines.push_back(name);
  }
  return table;
}

// Cells, or numbers, of a column that the study may lack: empty then.
std::vector<std::string> TextsIfAny(const CsvFile& csv, std::string_view column) {
  return csv.Has(column) ? csv.Texts(column) : std::vector<std::string>();
}
std::vector<double> NumbersIfAny(const CsvFile& csv, const std::string& column) {
  return csv.Has(column) ? csv.Numbers(column) : std::vector<double>();
}

// How points of a verdict on saturation look: "yes", "no" or "undecided".
PointFill FillOf(const std::string& saturated) {
  if (saturated == "undecided") return PointFill::kDotted;
  return saturated == "yes" ? PointFill::kHollow : PointFill::kFull;
}

// The line's points in the order of x.
FigureLine LineOf(const StudyTable& table, std::size_t line, const StudyFigure& shown) {
  const std::string metric(shown.metric);
  const std::vector<double> x = table.csv.Numbers(table.x);
  const std::vector<double> y = table.csv.Numbers(metric);
  const std::vector<double> low = NumbersIfAny(table.csv, metric + "_low");
  const std::vector<double> high = NumbersIfAny(table.csv, metric + "_high");
  const std::vector<std::string> saturated = TextsIfAny(table.csv, "saturated");
  std::vector<std::size_t> points;
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (table.line_of[i] == line && std::isfinite(y[i])) points.push_back(i);
  }
  std::ranges::stable_sort(points, {}, [&](std::size_t i) { return x[i]; });
  FigureLine drawn;
  drawn.name = table.lines[line];
  for (const std::size_t i : points) {
    drawn.x.push_back(x[i]);
    drawn.y.push_back(shown.factor * y[i]);
    if (!low.empty() && !high.empty()) {
      drawn.low.push_back(shown.factor * low[i]);
      drawn.high.push_back(shown.factor * high[i]);
    }
    drawn.fills.push_back(saturated.empty() ? PointFill::kFull : FillOf(saturated[i]));
  }
  return drawn;
}

bool IsTime(const StudyFigure& shown) { return shown.metric.ends_with("_ms"); }

// Whether values are positive and span more than two decades.
bool NeedsLogarithm(const std::vector<double>& values) {
  const auto [least, most] = std::ranges::minmax_element(values);
  return !values.empty() && *least > 0 && *most > 100 * *least;
}

void AddAxisFigures(Page& page, const StudyTable& table) {
  const std::string x_title = LastName(table.x) == "rate" ? "rate (requests/s)" : LastName(table.x);
  const std::vector<double> places = table.csv.Numbers(table.x);
  const auto [least, most] = std::ranges::minmax_element(places);
  // Values far from 0, or that grow by factors, would be crowded otherwise.
  const bool logarithmic = NeedsLogarithm(places);
  const FigureAxis x_axis{x_title, logarithmic, *least < *most / 2, ""};
  for (const StudyFigure& shown : kFigures) {
    if (!table.csv.Has(shown.metric)) continue;
    std::vector<double> all;
    std::vector<FigureLine> lines;
    for (std::size_t i = 0; i < std::min(table.lines.size(), kLinesMax); ++i) {
      lines.push_back(LineOf(table, i, shown));
      all.insert(all.end(), lines.back().y.begin(), lines.back().y.end());
    }
    if (std::ranges::all_of(all, [](double value) { return value == 0; })) continue;
    Figure figure(std::string(shown.title), x_axis,
                  {std::string(shown.title), IsTime(shown) && NeedsLogarithm(all), true, ""});
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (!lines[i].x.empty()) figure.AddLine(lines[i], i);
    }
    if (shown.metric == "slo_attainment") figure.AddBound(90, "90 %");
    page.Add(figure);
  }
}

// "412 [400, 430]", "412 (20 runs)" where so many are wanted for an interval, or "412".
std::vector<std::string> IntervalCells(const CsvFile& csv, const std::string& metric) {
  const std::vector<double> values = csv.Numbers(metric);
  const std::vector<double> low = NumbersIfAny(csv, metric + "_low");
  const std::vector<double> high = NumbersIfAny(csv, metric + "_high");
  const std::vector<std::string> wanted = TextsIfAny(csv, metric + "_runs_wanted");
  std::vector<std::string> cells;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::string& cell = cells.emplace_back();
    if (!std::isfinite(values[i])) continue;
    cell = NumberText(values[i]);
    if (!wanted.empty() && !wanted[i].empty()) {
      cell += fmt::format(" ({} runs)", wanted[i]);
    } else if (!low.empty() && !high.empty() && std::isfinite(low[i]) && low[i] != high[i]) {
      cell += fmt::format(" [{}, {}]", NumberText(low[i]), NumberText(high[i]));
    }
  }
  return cells;
}

PageTable PointTable(const StudyTable& table) {
  PageTable rows(std::min(table.csv.rows(), kTableRowsMax) + 1);
  const auto add_texts = [&](const std::string& column) {
    const std::vector<std::string> cells = table.csv.Texts(column);
    rows[0].push_back(column);
    for (std::size_t i = 1; i < rows.size(); ++i) rows[i].push_back(cells[i - 1]);
  };
  add_texts("point");
  for (const std::string& setting : table.settings) add_texts(setting);
  for (const char* column : {"n", "errors", "saturated"}) {
    if (table.csv.Has(column)) add_texts(column);
  }
  for (const std::string& metric : HeadlineMetrics()) {
    if (!table.csv.Has(metric)) continue;
    const std::vector<std::string> cells = IntervalCells(table.csv, metric);
    rows[0].push_back(metric);
    for (std::size_t i = 1; i < rows.size(); ++i) rows[i].push_back(cells[i - 1]);
  }
  return rows;
}

// The primary metrics of differences.csv; empty without a row of them.
PageTable DifferenceTable(const CsvFile& csv, const std::vector<std::string>& settings) {
  const std::vector<std::string> roles = csv.Texts("role");
  const std::vector<std::string> metrics = csv.Texts("metric");
  const std::vector<std::string> significant = csv.Texts("significant");
  const std::vector<std::string> notes = csv.Texts("note");
  const std::vector<std::string> differences = IntervalCells(csv, "difference");
  const std::vector<std::string> ratios = IntervalCells(csv, "ratio");
  std::vector<std::vector<std::string>> setting_cells;
  for (const std::string& setting : settings) setting_cells.push_back(csv.Texts(setting));
  PageTable rows;
  for (std::size_t i = 0; i < csv.rows() && rows.size() <= kTableRowsMax; ++i) {
    if (roles[i] != "primary") continue;
    if (rows.empty()) {
      rows.push_back(settings);
      rows[0].insert(rows[0].end(), {"metric", "difference", "ratio", "significant", ""});
    }
    std::vector<std::string>& row = rows.emplace_back();
    for (const std::vector<std::string>& cells : setting_cells) row.push_back(cells[i]);
    row.insert(row.end(), {metrics[i], differences[i], ratios[i], significant[i], notes[i]});
  }
  return rows;
}

void AddDifferences(Page& page, const fs::path& file, const StudyTable& table) {
  if (!fs::exists(file)) return;
  const CsvFile csv(file);
  page.Heading("Differences from the first base");
  if (!csv.Has("role")) {
    page.Paragraph("An earlier version wrote differences.csv; run the study again to see them.");
    return;
  }
  const PageTable rows = DifferenceTable(csv, table.settings);
  if (rows.empty()) {
    page.Paragraph("No primary metric differs.");
    return;
  }
  page.Table(rows);
  page.Paragraph(
      "The study's primary metrics share one error of 5 % (Holm). All others are exploratory: some "
      "of many differ by chance (differences.csv).");
}

void AddVerdict(Page& page, const StudyTable& table) {
  std::map<std::string, std::size_t> verdicts;
  for (const std::string& verdict : TextsIfAny(table.csv, "saturated")) ++verdicts[verdict];
  double errors = 0;
  for (const double count : NumbersIfAny(table.csv, "errors")) errors += count;
  page.Paragraph(fmt::format("{} points, {} of them with saturated runs, {} undecided.",
                             table.csv.rows(), verdicts["yes"], verdicts["undecided"]));
  if (verdicts["yes"] > 0) {
    page.Verdict("unsure",
                 "Hollow points are saturated: the offered rate exceeds the capacity, so their "
                 "latencies grow with the length of the run.");
  }
  if (verdicts["undecided"] > 0) {
    page.Verdict(
        "unsure",
        fmt::format("Points with a dot are undecided: {} have runs too short to tell whether "
                    "they are saturated.",
                    verdicts["undecided"]));
  }
  if (errors > 0) {
    page.Verdict("bad", fmt::format("{:.0f} runs failed; the column error of results.csv says why.",
                                    errors));
  }
}

}  // namespace

bool IsStudy(const fs::path& path) { return fs::exists(path / "summary.csv"); }

std::string StudyPage(const fs::path& study) {
  const StudyTable table = ReadStudyTable(study);
  Page page(RunName(study));
  AddVerdict(page, table);
  if (!table.x.empty()) {
    page.Heading(fmt::format("Against {}", table.x));
    if (table.lines.size() > kLinesMax) {
      page.Paragraph(fmt::format("The first {} of {} combinations of the other settings are drawn.",
                                 kLinesMax, table.lines.size()));
    }
    AddAxisFigures(page, table);
    page.Paragraph("Bands: 95 % intervals of the mean over seeds.");
  }
  page.Heading("Points");
  if (table.csv.rows() > kTableRowsMax) {
    page.Paragraph(fmt::format("The first {} of {} points.", kTableRowsMax, table.csv.rows()));
  }
  page.Table(PointTable(table));
  if (std::ranges::any_of(table.csv.header(), [](const std::string& column) {
        return column.ends_with("_runs_wanted");
      })) {
    page.Paragraph("(20 runs): replications that an interval of the metric wants.");
  }
  AddDifferences(page, study / "differences.csv", table);
  return page.Html();
}

}  // namespace twin::run
