// twinserve bounds: how far policies are from what no scheduler can beat.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/experiment_names.h"
#include "apps/options.h"
#include "apps/terminal_control.h"
#include "core/number_text.h"
#include "run/bounds/gap_to_bound.h"
#include "run/cost_cache.h"
#include "run/record/table.h"

namespace twin::apps {
namespace {

using Json = nlohmann::ordered_json;

struct BoundsArguments {
  std::vector<std::string> experiments;
  std::vector<std::string> assignments;
  std::string format = "table";
};

struct NamedGap {
  std::string experiment;
  run::GapToBound gap;
};

struct BoundedMetric {
  const char* name;
  double run::LatencyFloor::*value;
  double unit;
};

constexpr BoundedMetric kMetrics[] = {{"mean_ttft_ms", &run::LatencyFloor::mean_ttft_s, 1e3},
                                      {"mean_e2el_ms", &run::LatencyFloor::mean_e2el_s, 1e3},
                                      {"makespan_s", &run::LatencyFloor::makespan_s, 1}};

Json GapJson(const NamedGap& named) {
  const run::GapToBound& gap = named.gap;
  Json json{{"experiment", named.experiment},
            {"policy", gap.policy},
            {"requests", gap.requests},
            {"left_out", gap.left_out}};
  for (const BoundedMetric& metric : kMetrics) {
    const double value = gap.reached.*metric.value * metric.unit;
    const double bound = gap.floor.*metric.value * metric.unit;
    json[metric.name] = {
        {"value", value}, {"bound", bound}, {"ratio", bound > 0 ? Json(value / bound) : Json()}};
  }
  return json;
}

void PrintTable(const std::vector<NamedGap>& gaps) {
  std::vector<std::vector<std::string>> rows{{"experiment", "policy"}};
  for (const BoundedMetric& metric : kMetrics) {
    rows[0].insert(rows[0].end(), {metric.name, "bound", "ratio"});
  }
  for (const NamedGap& named : gaps) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {named.experiment, named.gap.policy};
    for (const BoundedMetric& metric : kMetrics) {
      const double value = named.gap.reached.*metric.value * metric.unit;
      const double bound = named.gap.floor.*metric.value * metric.unit;
      row.push_back(RoundedText(value, 4));
      row.push_back(RoundedText(bound, 4));
      row.push_back(bound > 0 ? RoundedText(value / bound, 3) : "-");
    }
  }
  WriteAligned(std::cout, rows, 2);
}

void MeasureGaps(const BoundsArguments& arguments, CommandContext& context) {
  TerminalControl control;
  std::vector<NamedGap> gaps;
  run::CostCache costs;
  run::WorkFloors floors;
  for (const std::string& path : arguments.experiments) {
    ExperimentTemplate experiment(ExperimentFile(path));
    experiment.Change(arguments.assignments, std::filesystem::current_path());
    const ExperimentConfig config = experiment.With({}, {});
    gaps.push_back(
        {config.name, run::MeasureGapToBound(run::Resolve(config, costs), control, floors)});
    if (gaps.back().gap.interrupted) {
      std::cerr << "interrupted: the bounds are not known\n";
      context.exit_code = 1;
      return;
    }
  }
  if (arguments.format == "json") {
    Json json = Json::array();
    for (const NamedGap& named : gaps) json.push_back(GapJson(named));
    std::cout << json.dump(2) << '\n';
  } else {
    PrintTable(gaps);
  }
  for (const NamedGap& named : gaps) {
    if (named.gap.left_out == 0) continue;
    std::cerr << fmt::format(
        "warning: {}: {} requests were rejected or cancelled; the values and bounds are of the "
        "{} others\n",
        named.experiment, named.gap.left_out, named.gap.requests);
  }
}

}  // namespace

void AddBoundsCommand(CommandParser app, CommandContext& context) {
  auto arguments = std::make_shared<BoundsArguments>();
  CommandParser command = app.AddCommand(
      "bounds", "Compare simulated latencies with lower bounds that no scheduler can beat");
  command.AddOption("EXPERIMENT", arguments->experiments, "Experiment files, one row each")
      .Required();
  AddOverrideOptions(command, arguments->assignments);
  command.AddOption("--format", arguments->format, "What to print (default: table)")
      .OneOf({"table", "json"});
  command.OnCall([arguments, &context] { MeasureGaps(*arguments, context); });
}

}  // namespace twin::apps
