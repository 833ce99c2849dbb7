// twinserve capacity: the largest load, or the largest or smallest value of any setting, at which
// bounds hold.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/experiment_names.h"
#include "apps/options.h"
#include "apps/terminal_control.h"
#include "core/files/output_file.h"
#include "core/input_error.h"
#include "core/number_text.h"
#include "run/many/capacity.h"
#include "run/record/table.h"

namespace twin::apps {
namespace {

using Json = nlohmann::ordered_json;

struct CapacityArguments {
  std::vector<std::string> experiments;
  std::vector<std::string> assignments;
  std::string between;
  std::string until;
  std::string format = "table";
  std::string out;
  run::CapacityQuestion question;
};

double ParseEnd(const std::string& text, const std::string& whole) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && std::isfinite(value))
    return value;
  throw InputError(InputError::Kind::kUsage, "--between " + whole,
                   "is no pair of numbers; allowed: LOW,HIGH");
}

void ParseBetween(const std::string& text, run::CapacityQuestion& question) {
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos) (void)ParseEnd("", text);
  question.from = ParseEnd(text.substr(0, comma), text);
  question.to = ParseEnd(text.substr(comma + 1), text);
}

// True, false, or null where it could not be tested.
Json SettledJson(const run::Capacity& capacity) {
  if (capacity.settled == run::Capacity::Settled::kNotTestable) return {};
  return capacity.settled == run::Capacity::Settled::kYes;
}

Json NumberJson(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json IntervalJson(const run::Interval& interval) {
  return {{"mean", NumberJson(interval.value)},
          {"low", NumberJson(interval.low)},
          {"high", NumberJson(interval.high)}};
}

Json CapacityJson(const run::Capacity& capacity, double confidence) {
  Json json{{"experiment", capacity.experiment},
            {"value", NumberJson(capacity.value)},
            {"low", NumberJson(capacity.low)},
            {"high", NumberJson(capacity.high)},
            {"confidence", confidence},
            {"verdict", run::NameOf(capacity.verdict)},
            {"limiting", capacity.limiting.empty() ? Json() : Json(capacity.limiting)},
            {"runs", capacity.runs},
            {"requests", capacity.requests},
            {"settled", SettledJson(capacity)},
            {"monotone", capacity.monotone},
            {"saturated", capacity.saturated},
            {"change", IntervalJson(capacity.change)},
            {"by_seed", Json()},
            {"probes", Json::array()}};
  if (!capacity.root.without.empty()) {
    json["by_seed"] = IntervalJson(capacity.by_seed);
    json["by_seed"]["values"] = run::PseudoValues(capacity.root);
  }
  for (const run::CapacityProbe& probe : capacity.probes) {
    json["probes"].push_back({{"x", probe.x},
                              {"requests", probe.requests},
                              {"n", probe.n},
                              {"metric", probe.metric},
                              {"mean", NumberJson(probe.interval.value)},
                              {"low", NumberJson(probe.interval.low)},
                              {"high", NumberJson(probe.interval.high)},
                              {"verdict", run::NameOf(probe.verdict)}});
  }
  return json;
}

// One experiment: its object. Several: an object with both lists.
std::string AnswerJson(const run::CapacityAnswer& answer, const run::CapacityQuestion& question) {
  if (answer.capacities.size() == 1) {
    return CapacityJson(answer.capacities[0], question.confidence).dump(2) + '\n';
  }
  Json json{{"path", question.path}, {"capacities", Json::array()}, {"comparisons", Json::array()}};
  for (const run::Capacity& capacity : answer.capacities)
    json["capacities"].push_back(CapacityJson(capacity, question.confidence));
  for (const run::CapacityComparison& comparison : answer.comparisons) {
    const run::PairedComparison& paired = comparison.paired;
    json["comparisons"].push_back({{"first", answer.capacities[comparison.first].experiment},
                                   {"second", answer.capacities[comparison.second].experiment},
                                   {"ratio", NumberJson(paired.ratio.value)},
                                   {"ratio_low", NumberJson(paired.ratio.low)},
                                   {"ratio_high", NumberJson(paired.ratio.high)},
                                   {"difference", NumberJson(paired.difference.value)},
                                   {"difference_low", NumberJson(paired.difference.low)},
                                   {"difference_high", NumberJson(paired.difference.high)},
                                   {"correlation", NumberJson(paired.correlation)}});
  }
  return json.dump(2) + '\n';
}

void WriteAnswer(const std::string& folder, const run::CapacityAnswer& answer,
                 const run::CapacityQuestion& question) {
  MakeOutputFolder(folder);
  WriteFile(std::filesystem::path(folder) / "capacity.json", AnswerJson(answer, question));
  std::cerr << "wrote " << folder << "\n";
}

std::string Shown(double value) { return std::isfinite(value) ? RoundedText(value, 4) : "-"; }

void PrintCapacities(const run::CapacityAnswer& answer, bool smallest, TableFormat format) {
  Table table{.columns = {"experiment", "verdict", "limiting", "value", "requests", "runs"},
              .left = 3};
  std::vector<IntervalEstimate> values;
  for (const run::Capacity& capacity : answer.capacities) {
    values.push_back({capacity.value, capacity.low, capacity.high});
    table.rows.push_back({capacity.experiment, run::NameOf(capacity.verdict),
                          capacity.limiting.empty() ? "-" : capacity.limiting,
                          TableCell::Number(EstimateText(values.back())),
                          TableCell::Number(std::to_string(capacity.requests)),
                          TableCell::Number(std::to_string(capacity.runs))});
  }
  if (const auto best = DecidedBest(values, !smallest)) table.rows[*best][3].best = true;
  WriteTable(std::cout, table, format);
  if (!answer.comparisons.empty() && format == TableFormat::kMarkdown) std::cout << '\n';
  for (const run::CapacityComparison& comparison : answer.comparisons) {
    const run::Interval& ratio = comparison.paired.ratio;
    WriteRemark(
        std::cout,
        fmt::format("{} over {}: {}x [{}, {}], correlation of the seeds {}",
                    answer.capacities[comparison.first].experiment,
                    answer.capacities[comparison.second].experiment, Shown(ratio.value),
                    Shown(ratio.low), Shown(ratio.high), Shown(comparison.paired.correlation)),
        format);
  }
}

// Says how doubling the runs changed the value.
std::string ChangeText(const run::Interval& change) {
  if (!std::isfinite(change.value)) return "nothing compares it with that of shorter runs";
  return fmt::format("the last doubling changed it by {} [{}, {}]", Shown(change.value),
                     Shown(change.low), Shown(change.high));
}

void WarnOf(const run::Capacity& capacity, const run::CapacityQuestion& question) {
  if (capacity.settled == run::Capacity::Settled::kNo) {
    std::cerr << fmt::format(
        "warning: {}: the value may still depend on the length of the runs ({} requests): {}\n",
        capacity.experiment, capacity.requests, ChangeText(capacity.change));
  }
  if (capacity.settled == run::Capacity::Settled::kNotTestable) {
    std::cerr << fmt::format(
        "warning: {}: the workload has no longer runs ({} requests), so that nothing says whether "
        "the value depends on their length\n",
        capacity.experiment, capacity.requests);
  }
  if (!capacity.root.without.empty() && !std::isfinite(capacity.by_seed.low)) {
    std::cerr << fmt::format(
        "warning: {}: {} has no value in some runs near the value, so that the seeds give no "
        "interval\n",
        capacity.experiment, capacity.limiting);
  }
  if (capacity.saturated) {
    std::cerr << fmt::format(
        "warning: {}: the server is saturated at the value that holds: more arrives than "
        "it serves, and the bounds do not tell; bound a latency or slo_attainment too\n",
        capacity.experiment);
  }
  if (!capacity.monotone) {
    std::cerr << fmt::format(
        "warning: {}: the bounds hold beyond a value at which they do not: there may be more than "
        "one limit\n",
        capacity.experiment);
  }
  if (capacity.verdict == run::Capacity::Verdict::kHoldsNowhere) {
    std::cerr << fmt::format("warning: {}: the bounds do not hold at {} either\n",
                             capacity.experiment,
                             Shown(question.smallest ? question.to : question.from));
  }
}

void FindCapacity(CapacityArguments& arguments, CommandContext& context) {
  run::CapacityQuestion& question = arguments.question;
  ParseBetween(arguments.between, question);
  question.bounds = run::ParseBounds(arguments.until);
  std::vector<ExperimentTemplate> experiments;
  for (const std::string& path : arguments.experiments)
    experiments.emplace_back(ExperimentFile(path))
        .Change(arguments.assignments, std::filesystem::current_path());
  TerminalControl control;
  const run::CapacityAnswer answer =
      run::FindCapacities(experiments, arguments.experiments, question, control);
  if (answer.interrupted) {
    std::cerr << "interrupted: the capacity is not known\n";
    context.exit_code = 1;
    return;
  }
  if (arguments.format == "json") {
    std::cout << AnswerJson(answer, question);
  } else {
    PrintCapacities(answer, question.smallest, FindTableFormat(arguments.format).value());
  }
  if (!arguments.out.empty()) WriteAnswer(arguments.out, answer, question);
  for (const run::Capacity& capacity : answer.capacities) WarnOf(capacity, question);
}

}  // namespace

void AddCapacityCommand(CommandParser app, CommandContext& context) {
  auto arguments = std::make_shared<CapacityArguments>();
  CommandParser command = app.AddCommand(
      "capacity",
      "Find the largest value of a setting, such as the rate, at which bounds hold, or "
      "the smallest, such as the number of replicas");
  command
      .AddOption("EXPERIMENT", arguments->experiments,
                 "Experiment files; several are compared on the same seeds")
      .Required();
  AddOverrideOptions(command, arguments->assignments);
  AddPolicyOption(command, arguments->assignments);
  command
      .AddOption("--vary", arguments->question.path,
                 "Field to vary, as in --set: workload.arrivals.rate")
      .Required();
  command.AddOption("--between", arguments->between, "LOW,HIGH: range to search").Required();
  command.AddFlag("--smallest", arguments->question.smallest,
                  "Find the smallest value, where larger ones help: --vary system.replicas");
  command
      .AddOption("--until", arguments->until,
                 "Bounds on metrics, joined by &&: 'p99_ttft_ms<=1000 && p99_tpot_ms<=100'")
      .Required();
  command
      .AddOption("--replications", arguments->question.replications,
                 "Seeds per value (default: 20; the sequential test needs 10)")
      .InRange(2, 100'000);
  command
      .AddOption("--confidence", arguments->question.confidence,
                 "Confidence level of the interval and of the sequential test (default: 0.95)")
      .InRange(0.5, 0.9999);
  command
      .AddOption("--tolerance", arguments->question.tolerance,
                 "Relative precision of the value, and largest effect of longer runs that is "
                 "ignored (default: 0.01)")
      .InRange(1e-6, 0.5);
  command
      .AddOption("--doublings", arguments->question.doublings_max,
                 "Most doublings of the runs' length (default: 5)")
      .InRange(0, 20);
  command.AddOption("--jobs", arguments->question.jobs, "Runs at a time (default: one per core)")
      .InRange(1, 1024);
  command.AddOption("--out", arguments->out, "Folder that gets capacity.json, with all probes");
  command.AddOption("--format", arguments->format, "What to print (default: table)")
      .OneOf({"table", "json", "markdown", "latex"});
  command.OnCall([arguments, &context] { FindCapacity(*arguments, context); });
}

}  // namespace twin::apps
