// twinserve bounds: how far policies are from what no scheduler can beat.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/bounds/distance.h"
#include "apps/commands.h"
#include "apps/options.h"
#include "apps/terminal_control.h"
#include "core/number_text.h"
#include "run/cost_cache.h"
#include "run/record/metric_table.h"

namespace twin::apps {
namespace {

using Json = nlohmann::ordered_json;

struct BoundsArguments {
  std::vector<std::string> experiments;
  std::vector<std::string> assignments;
  std::string format = "table";
};

struct NamedDistance {
  std::string experiment;
  run::Distance distance;
};

struct BoundedMetric {
  const char* name;
  double run::LatencyFloor::*value;
  double unit;
};

constexpr BoundedMetric kMetrics[] = {{"mean_ttft_ms", &run::LatencyFloor::mean_ttft_s, 1e3},
                                      {"mean_e2el_ms", &run::LatencyFloor::mean_e2el_s, 1e3},
                                      {"makespan_s", &run::LatencyFloor::makespan_s, 1}};

Json DistanceJson(const NamedDistance& named) {
  const run::Distance& distance = named.distance;
  Json json{{"experiment", named.experiment},
            {"policy", distance.policy},
            {"requests", distance.requests},
            {"left_out", distance.left_out}};
  for (const BoundedMetric& metric : kMetrics) {
    const double value = distance.reached.*metric.value * metric.unit;
    const double bound = distance.floor.*metric.value * metric.unit;
    json[metric.name] = {
        {"value", value}, {"bound", bound}, {"ratio", bound > 0 ? Json(value / bound) : Json()}};
  }
  return json;
}

void PrintTable(const std::vector<NamedDistance>& distances) {
  std::vector<std::vector<std::string>> rows{{"experiment", "policy"}};
  for (const BoundedMetric& metric : kMetrics) {
    rows[0].insert(rows[0].end(), {metric.name, "bound", "ratio"});
  }
  for (const NamedDistance& named : distances) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {named.experiment, named.distance.policy};
    for (const BoundedMetric& metric : kMetrics) {
      const double value = named.distance.reached.*metric.value * metric.unit;
      const double bound = named.distance.floor.*metric.value * metric.unit;
      row.push_back(RoundedText(value, 4));
      row.push_back(RoundedText(bound, 4));
      row.push_back(bound > 0 ? RoundedText(value / bound, 3) : "-");
    }
  }
  WriteAligned(std::cout, rows, 2);
}

void FindDistances(const BoundsArguments& arguments, CommandContext& context) {
  TerminalControl control;
  std::vector<NamedDistance> distances;
  run::CostCache costs;
  for (const std::string& path : arguments.experiments) {
    ExperimentTemplate experiment(path);
    experiment.Change(arguments.assignments, std::filesystem::current_path());
    const ExperimentConfig config = experiment.With({}, {});
    distances.push_back(
        {config.name, run::DistanceToOptimum(run::Resolve(config, costs), control)});
    if (distances.back().distance.interrupted) {
      std::cerr << "interrupted: the bounds are not known\n";
      context.exit_code = 1;
      return;
    }
  }
  if (arguments.format == "json") {
    Json json = Json::array();
    for (const NamedDistance& named : distances) json.push_back(DistanceJson(named));
    std::cout << json.dump(2) << '\n';
  } else {
    PrintTable(distances);
  }
  for (const NamedDistance& named : distances) {
    if (named.distance.left_out == 0) continue;
    std::cerr << fmt::format(
        "warning: {}: {} requests were rejected or cancelled; the values and bounds are of the "
        "{} others\n",
        named.experiment, named.distance.left_out, named.distance.requests);
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
  command.OnCall([arguments, &context] { FindDistances(*arguments, context); });
}

}  // namespace twin::apps
