// twinserve compare: several runs side by side, metrics and configurations.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string_view>

#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/terminal_control.h"
#include "config/config_difference.h"
#include "config/experiment_config.h"
#include "config/text_message.h"
#include "core/csv.h"
#include "core/input_error.h"
#include "core/nearest_names.h"
#include "run/export/perfetto_trace.h"
#include "run/measured_result.h"
#include "run/record/metric_catalog.h"
#include "run/record/metric_table.h"
#include "run/record/summary.h"
#include "run/run_directory.h"
#include "run/uncertainty_comparison.h"

namespace twin::apps {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

TableCell DrawnCell(const run::DrawnInterval& interval) {
  return TableCell::Number(EstimateText({interval.median, interval.low, interval.high}));
}

// The terms of the cost model that cause the spread of a metric.
std::string CausesText(const run::DrawnMetric& metric) {
  std::string text;
  for (const run::VarianceShare& cause : metric.causes) {
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", cause.term, 100 * cause.share);
  }
  return text;
}

// The verdict on two experiments in one line.
std::string Verdict(const std::vector<std::string>& names, const run::DrawnMetric& metric) {
  const bool second = metric.second_is_better.share >= 0.5;
  const run::DrawnProbability better =
      second ? metric.second_is_better : metric.second_is_better.opposite();
  const std::string text =
      fmt::format("{} is better in {:.0f} % of the draws: P(better) {:.2f} to {:.2f}",
                  names[second ? 1 : 0], 100 * better.share, better.low, better.high);
  if (better.is_likely()) return text;
  const std::string causes = CausesText(metric);
  return fmt::format("not decidable ({}); {}", text,
                     causes.empty()
                         ? "most of the spread is chance of the workload: more requests would help"
                         : "measuring would decide it, by share of the variance: " + causes);
}

Json IntervalJson(const run::DrawnInterval& interval) {
  return {{"median", interval.median}, {"low", interval.low}, {"high", interval.high}};
}

Table DrawsTable(const std::vector<std::string>& names,
                 const run::UncertaintyComparison& comparison) {
  Table table{.columns = {"metric"}, .left = 1};
  table.columns.insert(table.columns.end(), names.begin(), names.end());
  if (names.size() == 2) table.columns.emplace_back("difference");
  for (const run::DrawnMetric& metric : comparison.metrics) {
    std::vector<TableCell>& row = table.rows.emplace_back();
    row = {metric.name};
    for (const run::DrawnInterval& value : metric.values) row.push_back(DrawnCell(value));
    if (names.size() < 2) continue;
    row.push_back(DrawnCell(metric.difference));
    row[1].best = metric.second_is_better.opposite().is_likely();
    row[2].best = metric.second_is_better.is_likely();
  }
  return table;
}

// Prints a comparison under uncertainty. `names`: names of its one or two experiments.
void PrintDraws(std::ostream& out, const std::vector<std::string>& names,
                const run::UncertaintyComparison& comparison, TableFormat format) {
  out << '\n';
  WriteRemark(out,
              fmt::format("{} draws of the workload{}: median, and the interval that holds one "
                          "more draw with 90 %",
                          comparison.draws,
                          comparison.has_model_errors ? " and of the cost model's errors" : ""),
              format);
  out << (format == TableFormat::kMarkdown ? "\n" : "");
  WriteTable(out, DrawsTable(names, comparison), format);
  out << '\n';
  for (const run::DrawnMetric& metric : comparison.metrics) {
    if (names.size() == 2) {
      WriteRemark(out, fmt::format("{}: {}", metric.name, Verdict(names, metric)), format);
    } else if (!metric.causes.empty()) {
      WriteRemark(out, fmt::format("{}: variance from {}", metric.name, CausesText(metric)),
                  format);
    }
  }
  if (names.size() == 2) {
    WriteRemark(out,
                "P(better): the probability of being better in one more draw, which both share; it "
                "does not compare means (95 % interval; decided if it leaves out 0.5)",
                format);
  }
  if (!comparison.has_model_errors) {
    WriteRemark(out,
                "The cost models do not know their errors (only cost.profile does): the intervals "
                "hold the workload's chance alone.",
                format);
  }
}

Json DrawsJson(const run::UncertaintyComparison& comparison) {
  Json json{{"draws", comparison.draws},
            {"first_seed", comparison.first_seed},
            {"has_model_errors", comparison.has_model_errors},
            {"metrics", Json::array()}};
  for (const run::DrawnMetric& metric : comparison.metrics) {
    Json values = Json::array();
    for (const run::DrawnInterval& value : metric.values) values.push_back(IntervalJson(value));
    Json causes = Json::object();
    for (const run::VarianceShare& cause : metric.causes) causes[cause.term] = cause.share;
    Json one{{"name", metric.name}, {"values", values}, {"variance_shares", causes}};
    if (metric.values.size() == 2) {
      one["difference"] = IntervalJson(metric.difference);
      one["second_is_better"] = metric.second_is_better.share;
      one["second_is_better_low"] = metric.second_is_better.low;
      one["second_is_better_high"] = metric.second_is_better.high;
    }
    json["metrics"].push_back(std::move(one));
  }
  return json;
}

struct CompareArguments {
  std::vector<std::string> runs;
  std::vector<std::string> metrics;
  std::string format = "table";
  std::string perfetto;
  int draws = 0;
};

// Throws if no run has a metric that was asked for by name.
void RequireKnown(const std::vector<std::string>& metrics, std::span<const NamedSummary> runs) {
  std::vector<std::string> known = MetricNames(runs);
  std::sort(known.begin(), known.end());
  for (const std::string& metric : metrics) {
    if (std::binary_search(known.begin(), known.end(), metric)) continue;
    const std::vector<std::string_view> names(known.begin(), known.end());
    throw InputError(InputError::Kind::kUsage, "--metrics " + metric,
                     "no run has it; nearest: " + NearestNames(metric, names));
  }
}

std::vector<std::string> NamesToShow(const std::vector<std::string>& asked,
                                     std::span<const NamedSummary> runs) {
  if (asked.empty()) return HeadlineMetrics();
  if (asked.size() == 1 && asked[0] == "all") return MetricNames(runs);
  std::vector<std::string> keys;
  for (const std::string& name : asked) keys.push_back(MetricKey(name));
  RequireKnown(keys, runs);
  return keys;
}

// Differences of the configurations, "-" for measured runs, which have none. Empty, with a warning,
// unless all other runs have a configuration that this version reads.
std::vector<FieldDifference> Differences(const std::vector<run::RunResult>& runs) {
  std::vector<ConfigText> configs;
  for (const run::RunResult& run : runs) {
    if (run.measured) continue;
    const fs::path file = run.path / "config.resolved.textproto";
    if (!fs::exists(file)) {
      std::cerr << fmt::format("warning: the configurations are not compared: {} does not exist\n",
                               file.string());
      return {};
    }
    configs.push_back({file.string(), ReadTextFile(file)});
  }
  try {
    std::vector<FieldDifference> differences = ConfigDifferences(configs);
    for (FieldDifference& field : differences) {
      for (std::size_t i = 0; i < runs.size(); ++i) {
        if (!runs[i].measured) continue;
        field.values.insert(field.values.begin() + static_cast<std::ptrdiff_t>(i), "-");
      }
    }
    return differences;
  } catch (const InputError& error) {
    std::cerr << fmt::format("warning: the configurations are not compared: {}\n", error.what());
    return {};
  }
}

// The paths of the first few fields, and the number of the remaining ones.
std::string FieldsText(const std::vector<FieldDifference>& differences) {
  constexpr std::size_t kNamed = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, differences.size()); ++i) {
    text += fmt::format("{}{}", i > 0 ? ", " : "", differences[i].path);
  }
  if (differences.size() > kNamed) text += fmt::format(" and {} more", differences.size() - kNamed);
  return text;
}

void PrintTable(std::span<const NamedSummary> runs, const std::vector<std::string>& names,
                const std::vector<FieldDifference>& differences, TableFormat format) {
  WriteTable(std::cout, MetricTable(runs, names), format);
  if (differences.empty()) return;
  std::cout << '\n';
  if (runs.size() > 2 && format == TableFormat::kText) {  // too wide to read
    std::cout << fmt::format("configurations differ in {}; --format csv or json lists them\n",
                             FieldsText(differences));
    return;
  }
  Table table{.columns = {"config"}, .left = 1};
  for (const NamedSummary& run : runs) table.columns.push_back(run.name);
  for (const FieldDifference& field : differences) {
    table.rows.push_back({field.path});
    table.rows.back().insert(table.rows.back().end(), field.values.begin(), field.values.end());
  }
  WriteTable(std::cout, table, format);
}

void PrintCsv(std::span<const NamedSummary> runs, const std::vector<std::string>& names,
              const std::vector<FieldDifference>& differences) {
  WriteCsv(std::cout, runs, names);
  CsvLine line;
  for (const FieldDifference& field : differences) {
    line.Word("config." + field.path).Nothing();  // without a unit
    for (std::size_t i = 0; i < field.values.size(); ++i) {
      line.Word(field.values[i] == "-" ? "" : field.values[i]);
      if (i > 0) line.Nothing();  // no change in percent
    }
    line.WriteTo(std::cout);
  }
}

Json ToJson(const SummaryValue* value) {
  if (value == nullptr) return nullptr;
  return std::visit([](const auto& v) { return Json(v); }, *value);
}

// Refuses an option for which the record or the configuration of each run is needed.
void RefuseMeasured(const std::string& option, const std::vector<run::RunResult>& runs) {
  const auto measured = std::ranges::find_if(
      runs, [](const run::RunResult& run) { return run.measured.has_value(); });
  if (measured == runs.end()) return;
  throw InputError(
      InputError::Kind::kUsage, option,
      fmt::format("{} is a measured run; allowed: run directories", measured->path.string()));
}

// Simulates the runs' experiments again and again, each time with other errors.
std::optional<run::UncertaintyComparison> Draw(const CompareArguments& arguments) {
  if (arguments.draws == 0) return std::nullopt;
  if (arguments.runs.size() > 2) {
    throw InputError(InputError::Kind::kUsage, "--draws",
                     fmt::format("compares {} runs; allowed: one or two", arguments.runs.size()));
  }
  std::vector<ExperimentConfig> experiments;
  for (const std::string& run : arguments.runs) {
    const fs::path file = fs::path(run) / "config.resolved.textproto";
    experiments.push_back(ParseExperiment(ReadTextFile(file), file.string(), run));
  }
  if (experiments.back().seed != experiments.front().seed) {
    std::cerr << fmt::format("note: the draws of both take the seeds from {} on, those of {}\n",
                             experiments.front().seed, arguments.runs.front());
  }
  TerminalControl control;
  return run::CompareDraws(experiments, arguments.draws, control);
}

// Says that the differences of single simulations hold chance. `differences`: of configurations.
void NoteChance(const std::vector<run::RunResult>& runs,
                const std::vector<FieldDifference>& differences) {
  const bool measured =
      std::ranges::any_of(runs, [](const run::RunResult& run) { return run.measured.has_value(); });
  if (measured || differences.empty()) return;
  const bool seeds_differ =
      std::ranges::find(differences, "seed", &FieldDifference::path) != differences.end();
  std::cerr << fmt::format(
      "note: one run each{}: differences include the luck of their arrivals; `compare --draws 20` "
      "or a study (docs/studies.md) tells them apart\n",
      seeds_differ ? ", with different seeds" : "");
}

// Says that the policies differ in more than their decisions: the time of the host hides behind the
// device with some of them alone. `differences`: of configurations that can be read.
void NoteHosts(const std::vector<run::RunResult>& runs,
               const std::vector<FieldDifference>& differences) {
  if (differences.empty()) return;
  std::vector<std::string> ahead;
  std::vector<std::string> waiting;
  for (const run::RunResult& run : runs) {
    if (run.measured) continue;
    const fs::path file = run.path / "config.resolved.textproto";
    try {
      const ExperimentConfig config = ParseExperiment(ReadTextFile(file), file.string(), run.name);
      const bool plans_ahead =
          TraitsOf(config).steps_in_flight_max > config.system.parallelism.pipeline;
      (plans_ahead ? ahead : waiting).push_back(run.name);
    } catch (const InputError&) {
      return;  // the file of an own policy is gone, or an earlier version wrote the run
    }
  }
  if (ahead.empty() || waiting.empty()) return;
  std::cerr << fmt::format(
      "note: {} plan{} each step while the one before it runs, {} wait{} for its results: their "
      "difference includes the time of the host\n",
      fmt::join(ahead, ", "), ahead.size() == 1 ? "s" : "", fmt::join(waiting, ", "),
      waiting.size() == 1 ? "s" : "");
}

void PrintJson(const std::vector<run::RunResult>& results, std::span<const NamedSummary> runs,
               const std::vector<std::string>& names,
               const std::vector<FieldDifference>& differences,
               const std::optional<run::UncertaintyComparison>& draws) {
  Json json{{"runs", Json::array()}, {"metrics", Json::array()}, {"config", Json::array()}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    json["runs"].push_back({{"name", runs[i].name}, {"path", results[i].path.string()}});
  }
  for (const MetricRow& row : MetricRows(runs, names)) {
    Json values = Json::array();
    Json changes = Json::array();
    for (const SummaryValue* value : row.values) values.push_back(ToJson(value));
    for (const auto& change : row.change_percent)
      changes.push_back(change ? Json(*change) : Json());
    json["metrics"].push_back(
        {{"name", row.name}, {"unit", row.unit}, {"values", values}, {"change_percent", changes}});
  }
  for (const FieldDifference& field : differences) {
    Json values = Json::array();
    for (const std::string& value : field.values) {
      values.push_back(value == "-" ? Json() : Json(value));
    }
    json["config"].push_back({{"field", field.path}, {"values", values}});
  }
  if (draws) json["uncertainty"] = DrawsJson(*draws);
  std::cout << json.dump(2) << '\n';
}

void Compare(const CompareArguments& arguments) {
  const std::vector<fs::path> paths(arguments.runs.begin(), arguments.runs.end());
  const std::vector<run::RunResult> results = run::ReadResults(paths);
  for (const std::string& note : run::NotesOf(results)) {
    std::cerr << fmt::format("note: {}\n", note);
  }
  std::vector<NamedSummary> runs;
  for (const run::RunResult& result : results) runs.push_back({result.name, &result.summary});
  if (arguments.draws > 0) RefuseMeasured("--draws", results);
  if (!arguments.perfetto.empty()) RefuseMeasured("--perfetto", results);
  const std::vector<std::string> names = NamesToShow(arguments.metrics, runs);
  if (!arguments.perfetto.empty()) {
    run::WritePerfettoTrace(arguments.perfetto, paths);
    std::cerr << fmt::format("wrote {}\n", arguments.perfetto);
  }
  const std::vector<FieldDifference> differences = Differences(results);
  if (arguments.draws == 0) NoteChance(results, differences);
  NoteHosts(results, differences);
  const std::optional<run::UncertaintyComparison> draws = Draw(arguments);
  if (arguments.format == "json") {
    PrintJson(results, runs, names, differences, draws);
  } else if (arguments.format == "csv") {
    PrintCsv(runs, names, differences);
  } else {
    const TableFormat format = FindTableFormat(arguments.format).value();
    PrintTable(runs, names, differences, format);
    if (!draws) return;
    std::vector<std::string> titles;
    for (const NamedSummary& run : runs) titles.push_back(run.name);
    PrintDraws(std::cout, titles, *draws, format);
  }
}

}  // namespace

void AddCompareCommand(CommandParser app, CommandContext& /*context*/) {
  auto arguments = std::make_shared<CompareArguments>();
  CommandParser command = app.AddCommand(
      "compare",
      "Print metrics of several runs side by side, the change against the first run, and "
      "the fields in which their configurations differ");
  command
      .AddOption("RUN_DIR", arguments->runs,
                 "Run directories, and files of benchmark tools or logs of requests")
      .Required();
  command
      .AddOption("--metrics", arguments->metrics,
                 "Keys of summary.json to print, separated by commas, or all")
      .SplitAt(',');
  command.AddOption("--format", arguments->format, "Output format (default: table)")
      .OneOf({"table", "csv", "json", "markdown", "latex"});
  command.AddOption("--perfetto", arguments->perfetto,
                    "Also write one Perfetto trace with all runs, a process each, to this file");
  command
      .AddOption(
          "--draws", arguments->draws,
          "Simulate the experiments of one or two runs this many times, at least 19, with other "
          "seeds and other errors of the cost model, the same for both; print intervals that hold "
          "one more draw with 90 %, and which run is more likely to be better (not in csv)")
      .InRange(run::kDrawsMin, 100'000);
  command.OnCall([arguments] { Compare(*arguments); });
}

}  // namespace twin::apps
