// twinserve recommend: finds settings for given models, devices, load and bounds.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "apps/commands.h"
#include "apps/experiment_names.h"
#include "apps/experiment_options/option_experiment.h"
#include "apps/recommend/deployment_files.h"
#include "apps/recommend/recommendation.h"
#include "apps/recommend/recommendation_json.h"
#include "apps/recommend/recommendation_table.h"
#include "apps/recommend/request_options.h"
#include "apps/terminal_control.h"
#include "config/recommend_config.h"
#include "core/files/output_file.h"
#include "core/input_error.h"
#include "core/number_text.h"

namespace twin::apps {
namespace {

struct RecommendArguments {
  std::string file;
  RequestOptions request;
  std::string written;  // the request as a file
  std::string format = "table";
  std::string out;
  std::string deploy;
  std::optional<double> time_limit_s;
  run::RecommendOptions options;
};

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

// The load, and what further runs of the first configuration say.
void PrintChecks(const run::Recommendation& answer) {
  std::cout << fmt::format("\nat {} {}", run::DefinedText(answer.load), answer.load_unit);
  if (answer.first_again) {
    std::cout << fmt::format("; rank 1 again, on other seeds: {} {}",
                             run::IntervalText(*answer.first_again), answer.value_unit);
  } else if (answer.left_out.empty()) {
    std::cout << "; rank 1 keeps the bounds on other seeds, too";
  }
  std::cout << "\n\n";
  if (answer.length_check) std::cout << LengthText(*answer.length_check) << "\n\n";
}

// How to start the first configuration with the weights of the checkpoint, and the first of all.
void PrintCommands(const run::Recommendation& answer) {
  const std::size_t own = run::FirstWithOwnWeights(answer);
  for (const std::size_t i : own == 0 ? std::vector<std::size_t>{0} : std::vector{own, 0UL}) {
    const run::RecommendedConfiguration& one = answer.configurations[i];
    if (one.command.empty()) continue;
    const std::string rank =
        own == 0 ? ""
                 : fmt::format("rank {}{}: ", one.rank,
                               one.candidate.quantised ? ", quantised weights" : "");
    std::cout << fmt::format("{}{}{}\n\n", rank, TimesText(one.candidate.choice.layout),
                             one.command);
  }
  if (own > 0 && !answer.sensitivity.empty()) std::cout << "around rank 1:\n";
}

void PrintAnswer(const run::Recommendation& answer, const RecommendConfig& request) {
  if (!answer.configurations.empty()) {
    run::WriteConfigurations(std::cout, answer, request);
    PrintChecks(answer);
    PrintCommands(answer);
    for (const run::SettingSensitivity& setting : answer.sensitivity)
      std::cout << fmt::format("{}\n", setting.sentence);
    std::cout << "\nleast TTFT and TPOT at the load (Pareto): rank";
    for (const run::ParetoConfiguration& point : answer.pareto)
      std::cout << fmt::format(" {} ({} ms, {} ms)", point.rank,
                               run::DefinedText(point.mean_ttft_ms),
                               run::DefinedText(point.mean_tpot_ms));
    std::cout << "\n";
  }
  PrintRejected(answer, request);
  for (const std::string& text : answer.assumptions) std::cout << "assumed: " << text << "\n";
  for (const std::string& text : answer.not_considered)
    std::cout << "not considered: " << text << "\n";
}

// Says what the limit of time left out, on stderr, so that it is seen with every format.
void ReportTimeLimit(const run::Recommendation& answer, const RecommendArguments& arguments) {
  if (answer.left_out.empty()) return;
  for (const std::string& part : answer.left_out) {
    std::cerr << fmt::format("time limit of {} s: left out: {}\n",
                             RoundedText(*arguments.time_limit_s, 4), part);
  }
  if (!arguments.out.empty()) {
    std::cerr << fmt::format("without the limit, the same command goes on with {}\n",
                             arguments.options.log.string());
  }
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
  if (arguments.time_limit_s) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::duration<double>(*arguments.time_limit_s);
    arguments.options.out_of_time = [end] { return Clock::now() >= end; };
  }
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
  ReportTimeLimit(answer, arguments);
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
    std::cerr << (answer.left_out.empty()
                      ? "no configuration is left; the reasons are listed above\n"
                      : "no configuration was compared within the time limit\n");
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
  command
      .AddOption("--time-limit", arguments->time_limit_s,
                 "Seconds after which the search ends with what it has, and says what it left out")
      .InRange(0.001, 1e9);
  command.AddFlag("--exhaustive", arguments->options.exhaustive,
                  "Run every configuration at full length, to check the search");
  command.AddOption("--format", arguments->format, "What to print (default: table)")
      .OneOf({"table", "json"});
  command.OnCall([arguments, &context] { AnswerRequest(*arguments, context); });
}

}  // namespace twin::apps
