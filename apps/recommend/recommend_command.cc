// twinserve recommend: finds settings for given models, devices, load and bounds.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include "apps/commands.h"
#include "apps/experiment_names.h"
#include "apps/experiment_options/option_experiment.h"
#include "apps/recommend/deployment_files.h"
#include "apps/recommend/recommendation.h"
#include "apps/recommend/recommendation_json.h"
#include "apps/recommend/request_options.h"
#include "apps/terminal_control.h"
#include "config/recommend_config.h"
#include "core/files/output_file.h"
#include "core/input_error.h"
#include "core/number_text.h"
#include "run/record/table.h"

namespace twin::apps {
namespace {

struct RecommendArguments {
  std::string file;
  RequestOptions request;
  std::string written;  // the request as a file
  std::string format = "table";
  std::string out;
  std::string deploy;
  run::RecommendOptions options;
};

constexpr std::size_t kRowsMax = 15;

std::string Rounded(double value) { return std::isfinite(value) ? RoundedText(value, 4) : "-"; }

std::string WithInterval(const run::Interval& interval) {
  return fmt::format("{} [{}, {}]", Rounded(interval.value), Rounded(interval.low),
                     Rounded(interval.high));
}

std::string CellText(const run::Parameter& parameter) {
  return std::visit(
      [](const auto& value) -> std::string {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, double>) {
          return RoundedText(value, 4);
        } else {
          return fmt::format("{}", value);
        }
      },
      parameter.second);
}

// A column of cells, one per configuration, for every setting that any configuration has, in the
// order of ParametersOf; "-" where a configuration's server does not have the setting.
std::vector<std::pair<std::string, std::vector<std::string>>> ColumnsOf(
    const run::Recommendation& answer, const RecommendConfig& request) {
  std::vector<std::pair<std::string, std::vector<std::string>>> columns;
  const std::size_t count = answer.configurations.size();
  for (std::size_t i = 0; i < count; ++i) {
    const run::CandidateSettings& choice = answer.configurations[i].candidate.choice;
    for (const run::Parameter& parameter : run::ParametersOf(request, choice)) {
      auto column =
          std::ranges::find(columns, parameter.first, [](const auto& c) { return c.first; });
      if (column == columns.end()) {
        columns.emplace_back(parameter.first, std::vector<std::string>(count, "-"));
        column = std::prev(columns.end());
      }
      column->second[i] = CellText(parameter);
    }
  }
  return columns;
}

// The first configuration of each result. Settings that do not bind have results that are equal to
// the last digit.
std::vector<std::size_t> DistinctResults(const std::vector<run::RecommendedConfiguration>& all) {
  std::vector<std::size_t> distinct;
  std::set<std::vector<double>> seen;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<double> result = {all[i].value.value};
    for (const run::BoundMargin& margin : all[i].margins) result.push_back(margin.metric.value);
    if (seen.insert(std::move(result)).second) distinct.push_back(i);
  }
  return distinct;
}

// The settings in which the configurations differ have a column each.
void PrintConfigurations(const run::Recommendation& answer, const RecommendConfig& request) {
  const auto& all = answer.configurations;
  auto columns = ColumnsOf(answer, request);
  std::erase_if(columns, [](const auto& column) {
    const auto& [name, cells] = column;
    const bool equal = std::ranges::count(cells, cells[0]) == std::ssize(cells);
    if (equal) std::cout << fmt::format("{}: {}\n", name, cells[0]);
    return equal;
  });
  std::vector<std::vector<std::string>> rows{{"rank", "tied"}};
  for (const auto& [name, cells] : columns) rows[0].push_back(name);
  rows[0].push_back(answer.objective == answer.value_unit
                        ? answer.objective
                        : fmt::format("{} ({})", answer.objective, answer.value_unit));
  for (const run::BoundMargin& margin : all[0].margins) rows[0].push_back(margin.bound);
  const std::vector<std::size_t> shown = DistinctResults(all);
  for (const std::size_t i : shown) {
    if (rows.size() > kRowsMax) break;
    std::vector<std::string> row = {std::to_string(all[i].rank), all[i].tied ? "yes" : "no"};
    for (const auto& [name, cells] : columns) row.push_back(cells[i]);
    row.push_back(WithInterval(all[i].value));
    for (const run::BoundMargin& margin : all[i].margins)
      row.push_back(Rounded(margin.metric.value));
    rows.push_back(std::move(row));
  }
  std::cout << '\n';
  WriteAligned(std::cout, rows, 2 + columns.size());
  if (shown.size() > kRowsMax)
    std::cout << fmt::format("... and {} more (--format json)\n", shown.size() - kRowsMax);
  if (shown.size() < all.size())
    std::cout << fmt::format("{} further settings have the result of one of these rows\n",
                             all.size() - shown.size());
}

// "4 x h100-sxm", with "and 8 x l40s for FFNs".
std::string DevicesText(const OfferedHardwareConfig& hardware, const run::Layout& layout) {
  const std::string own = fmt::format("{} x {}", layout.own_devices(), hardware.name);
  if (!layout.ffn) return own;
  return fmt::format("{} and {} x {} for FFNs", own, layout.pool_devices(),
                     hardware.ffn->name.empty() ? hardware.name : hardware.ffn->name);
}

// The reason without its numbers.
std::string KindOfReason(const std::string& reason) {
  std::string kind;
  std::ranges::copy_if(reason, std::back_inserter(kind),
                       [](char c) { return (c < '0' || c > '9') && c != '.' && c != ','; });
  return kind;
}

// A line for each kind of reason, with one of the settings that it holds for.
void PrintRejected(const run::Recommendation& answer, const RecommendConfig& request) {
  std::map<std::string, std::pair<std::size_t, const run::RejectedSettings*>> kinds;
  for (const run::RejectedSettings& one : answer.rejected) {
    auto& [count, example] = kinds[KindOfReason(one.reason)];
    if (count++ == 0) example = &one;
  }
  for (const auto& [kind, found] : kinds) {
    const auto& [count, example] = found;
    const run::CandidateSettings& choice = example->choice;
    const std::string format =
        choice.weight_dtype ? fmt::format(", {}", Name(*choice.weight_dtype)) : "";
    std::cout << fmt::format(
        "rejected ({}), such as {} on {}, {}, tensor_parallel {}, pipeline_parallel {}{}: {}\n",
        count, request.models[choice.model].name,
        DevicesText(request.hardware[choice.hardware], choice.layout), choice.server,
        choice.layout.parallelism.tensor, choice.layout.parallelism.pipeline, format,
        example->reason);
  }
}

// How often the command runs.
std::string TimesText(const run::Layout& layout) {
  if (layout.prefill_replicas > 0) {
    return fmt::format(
        "{} to prefill and {} to decode, behind a proxy that sends a request to both: ",
        layout.prefill_replicas, layout.replicas - layout.prefill_replicas);
  }
  return layout.replicas > 1 ? fmt::format("{} times: ", layout.replicas) : "";
}

std::string LengthText(const run::LengthCheck& check) {
  const auto percent = [](double share) { return fmt::format("{:+.1f} %", 100 * share); };
  const std::string change = fmt::format("runs of {} requests change it by {} [{}, {}]",
                                         check.requests, percent(check.change.value),
                                         percent(check.change.low), percent(check.change.high));
  return check.settled ? "settled: " + change
                       : "not settled: the value may depend on the length of the runs; " + change;
}

void PrintAnswer(const run::Recommendation& answer, const RecommendConfig& request) {
  if (!answer.configurations.empty()) {
    const run::RecommendedConfiguration& first = answer.configurations[0];
    PrintConfigurations(answer, request);
    std::cout << fmt::format("\nat {} {}; {}\n\n", Rounded(answer.load), answer.load_unit,
                             answer.first_again
                                 ? fmt::format("the first again, on other seeds: {} {}",
                                               WithInterval(*answer.first_again), answer.value_unit)
                                 : "the first keeps the bounds on other seeds, too");
    if (answer.length_check) std::cout << LengthText(*answer.length_check) << "\n\n";
    if (!first.command.empty()) {
      std::cout << fmt::format("{}{}\n\n", TimesText(first.candidate.choice.layout), first.command);
    }
    for (const run::SettingSensitivity& setting : answer.sensitivity)
      std::cout << fmt::format("{}\n", setting.sentence);
    std::cout << "\nleast TTFT and TPOT at the load (Pareto): rank";
    for (const run::ParetoConfiguration& point : answer.pareto)
      std::cout << fmt::format(" {} ({} ms, {} ms)", point.rank, Rounded(point.mean_ttft_ms),
                               Rounded(point.mean_tpot_ms));
    std::cout << "\n";
  }
  PrintRejected(answer, request);
  for (const std::string& text : answer.assumptions) std::cout << "assumed: " << text << "\n";
  for (const std::string& text : answer.not_considered)
    std::cout << "not considered: " << text << "\n";
}

void RequireDeployable(const RecommendConfig& request, const std::string& deploy) {
  const bool has_pool = std::ranges::any_of(
      request.hardware, [](const auto& offer) { return offer.ffn.has_value(); });
  if (deploy.empty() || !has_pool) return;
  throw InputError(InputError::Kind::kUsage, "--deploy",
                   "no server keeps attention and feed-forward networks on devices of their own; "
                   "allowed: a request without hardware.ffn");
}

// From a file, or from options.
RecommendConfig ReadRequest(const RecommendArguments& arguments) {
  const bool has_options = HasRequest(arguments.request);
  if (!arguments.file.empty() && has_options) {
    throw InputError(InputError::Kind::kUsage, "recommend",
                     "a request file and options of a request; allowed: one of both");
  }
  if (!arguments.file.empty()) return ReadRecommendation(ExperimentFile(arguments.file));
  if (!has_options) {
    throw InputError(InputError::Kind::kUsage, "recommend",
                     "no request; allowed: REQUEST, a file, or options: --model M --hardware HW "
                     "--devices N, --rate R or --concurrency N, and --until BOUNDS");
  }
  const std::string text = RequestText(arguments.request);
  const GivenOptions& given = arguments.request.given;
  for (const std::string& line : SortedOptions(given, ExperimentOf(given, "recommend"))) {
    std::cerr << line << "\n";
  }
  if (!arguments.written.empty()) {
    WriteFile(arguments.written, text);
    std::cerr << "wrote " << arguments.written << "\n";
  }
  return ParseRecommendation(text, "recommend", std::filesystem::current_path());
}

void AnswerRequest(RecommendArguments& arguments, CommandContext& context) {
  const RecommendConfig request = ReadRequest(arguments);
  RequireDeployable(request, arguments.deploy);
  if (!arguments.out.empty()) arguments.options.log = run::LogIn(arguments.out);
  TerminalControl control;
  const run::Recommendation answer = run::Recommend(request, arguments.options, control);
  if (answer.interrupted) {
    std::cerr << fmt::format(
        "interrupted: {}\n",
        arguments.out.empty() ? "nothing is kept; with --out, the same command goes on"
                              : "the same command goes on with " + arguments.options.log.string());
    context.exit_code = 1;
    return;
  }
  if (!arguments.out.empty()) {
    run::WriteRecommendation(answer, request, arguments.out);
    std::cerr << fmt::format("wrote {}\n", arguments.out);
  }
  if (!arguments.deploy.empty() && !answer.configurations.empty()) {
    run::WriteDeployment(answer, request, arguments.deploy);
    std::cerr << fmt::format("wrote {}\n", arguments.deploy);
  }
  if (arguments.format == "json") {
    std::cout << run::RecommendationJson(answer, request);
  } else {
    PrintAnswer(answer, request);
  }
  if (answer.configurations.empty()) {
    std::cerr << "no configuration is left; the reasons are listed above\n";
    context.exit_code = 1;
  }
}

}  // namespace

void AddRecommendCommand(CommandParser app, CommandContext& context) {
  auto arguments = std::make_shared<RecommendArguments>();
  CommandParser command = app.AddCommand(
      "recommend", "Find what to set on a server for given models, devices, load and bounds");
  command.AddOption("REQUEST", arguments->file,
                    "Request file (.textproto): docs/parameters.md, docs/configuration.md; or "
                    "options from --model on in its place");
  AddRequestOptions(command, context.command_line, arguments->request);
  command.AddOption("--write-request", arguments->written,
                    "Also write the request that the options describe to this file");
  command.AddOption("--out", arguments->out,
                    "Folder for recommendation.json and an experiment per configuration; a search "
                    "that is interrupted goes on from there");
  command.AddOption(
      "--deploy", arguments->deploy,
      "Folder for files that start the first configuration (shell, Kubernetes, nginx) "
      "and measure it with `vllm bench serve`");
  command.AddOption("--jobs", arguments->options.jobs, "Runs at a time (default: one per core)")
      .InRange(1, 1024);
  command.AddFlag("--exhaustive", arguments->options.exhaustive,
                  "Run every configuration at full length, to check the search");
  command.AddOption("--format", arguments->format, "What to print (default: table)")
      .OneOf({"table", "json"});
  command.OnCall([arguments, &context] { AnswerRequest(*arguments, context); });
}

}  // namespace twin::apps
