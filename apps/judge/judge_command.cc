// twinserve judge: judges scheduling policies that nobody has read.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/experiment_names.h"
#include "apps/judge/judged_set.h"
#include "apps/judge/verdict_json.h"
#include "apps/options.h"
#include "apps/terminal_control.h"
#include "core/hash.h"
#include "core/input_error.h"
#include "run/judge/host_loop.h"
#include "run/judge/judge.h"
#include "run/judge/secret.h"

namespace twin::apps {
namespace {

// A quick look has the highest load of each of so many workloads.
constexpr std::size_t kQuickCells = 3;
constexpr double kQuickLoadMin = 1.5;
// Time of planning that a policy in C++ may take in 99 % of its steps; one in Python: JudgeOptions.
constexpr double kLibraryPlanningUs = 50;
// On experiments, rounds go on until so many pairs are made, and so many while a comparison is
// undecided.
constexpr std::int32_t kFewPairs = 20;
constexpr std::int32_t kManyPairs = 60;
// Schedulers of engines take about a millisecond a step.
constexpr double kEngineBudgetSeconds = 600;
constexpr std::int32_t kEngineHostileWorlds = 200;

struct JudgeArguments {
  std::vector<std::string> policies;
  std::string set = "judge";
  std::vector<std::string> experiments;
  std::vector<std::string> assignments;
  std::vector<std::string> against;
  std::string engine;
  std::vector<PolicyParameter> parameters;
  std::string seed;  // empty: not given
  std::uint64_t submission = 1;
  std::optional<std::int32_t> cells;
  std::optional<std::int32_t> rounds;
  std::optional<std::int32_t> rounds_max;
  std::optional<std::int32_t> hostile_worlds;
  double confidence = 0.97;
  std::optional<double> budget_s;
  std::string metric;
  std::string format = "json";
  bool quick = false;
  bool host = false;
};

// Orders of the default policy that policies are compared with, and what --set makes of them.
struct KnownReference {
  const char* name;
  std::vector<std::string> changes;
};
const std::vector<KnownReference>& KnownReferences() {
  static const std::vector<KnownReference> known{
      {"default", {}},
      {"shortest_prompt", {"policy.vllm_v1.order.kind=sjf", "policy.vllm_v1.order.size=prompt"}},
      {"sjf_predicted", {"policy.vllm_v1.order.kind=sjf"}},
      {"srpt_predicted", {"policy.vllm_v1.order.kind=srpt"}}};
  return known;
}

run::JudgedReference ReferenceOf(const std::string& asked) {
  if (asked.find('=') != std::string::npos) return {asked, {asked}};
  std::vector<std::string> names;
  for (const KnownReference& known : KnownReferences()) {
    if (asked == known.name) return {asked, known.changes};
    names.emplace_back(known.name);
  }
  throw InputError(InputError::Kind::kUsage, "judge --against",
                   fmt::format("is {}; allowed: {}, or a change such as --set takes", asked,
                               fmt::join(names, ", ")));
}

// The default policy is always the first: the gates compare with it.
std::vector<run::JudgedReference> ReferencesOf(const JudgeArguments& arguments) {
  std::vector<run::JudgedReference> references{ReferenceOf("default")};
  std::vector<std::string> asked = arguments.against;
  if (asked.empty() && arguments.experiments.empty() && !arguments.quick) {
    asked = {"shortest_prompt", "sjf_predicted"};
  }
  for (const std::string& name : asked) {
    if (name != "default") references.push_back(ReferenceOf(name));
  }
  return references;
}

std::filesystem::path FolderOf(const std::string& set) {
  if (set == "search" || set == "judge") {
    return ExperimentFile("policy_search/" + set + "/chat").parent_path();
  }
  if (set.find('/') != std::string::npos || std::filesystem::is_directory(set)) return set;
  throw InputError(InputError::Kind::kUsage, "judge --on",
                   fmt::format("is {}; allowed: search, judge, or a folder", set));
}

std::vector<run::JudgedCell> CellsOf(const JudgeArguments& arguments, std::uint64_t seed) {
  std::vector<run::JudgedCell> cells;
  if (!arguments.experiments.empty()) {
    for (const std::string& asked : arguments.experiments) {
      const std::filesystem::path file = ExperimentFile(asked);
      cells.push_back({file.stem().string(), "as given", 1, ExperimentTemplate(file)});
    }
  } else if (arguments.quick) {
    // A search compares the scores of policies: all get these cells.
    cells = DrawCells(ReadJudgedSet(FolderOf(arguments.set)), 1, kQuickLoadMin, 0);
    cells.erase(cells.begin() + static_cast<std::ptrdiff_t>(std::min(cells.size(), kQuickCells)),
                cells.end());
  } else {
    cells = ReadJudgedSet(FolderOf(arguments.set));
    if (arguments.cells) {
      cells = DrawCells(cells, static_cast<std::size_t>(*arguments.cells), 0, seed);
    }
  }
  for (run::JudgedCell& cell : cells) {
    cell.experiment.Change(arguments.assignments, std::filesystem::current_path());
  }
  return cells;
}

// Rounds and hostile worlds where none are asked for.
struct Extent {
  std::int32_t rounds = 0;
  std::int32_t rounds_max = 0;  // `rounds` are made in any case
  std::int32_t hostile_worlds = 0;
};

Extent ExtentOf(const JudgeArguments& arguments) {
  Extent extent{.rounds = 2, .rounds_max = 2, .hostile_worlds = 1000};
  if (!arguments.experiments.empty()) {
    // As many pairs as on a set, which has more cells.
    const auto cells = static_cast<std::int32_t>(arguments.experiments.size());
    extent.rounds = std::max(2, kFewPairs / cells);
    extent.rounds_max = std::max(2, kManyPairs / cells);
  }
  if (!arguments.engine.empty()) extent.hostile_worlds = kEngineHostileWorlds;
  if (arguments.quick) {
    extent = {.rounds = arguments.experiments.empty() ? 1 : 3};  // and no more
  }
  return extent;
}

run::JudgeOptions OptionsOf(const JudgeArguments& arguments, const run::JudgeSecret& secret,
                            std::size_t number) {
  const Extent extent = ExtentOf(arguments);
  run::JudgeOptions options;
  options.secret = secret;
  options.submission = arguments.submission + number;
  options.confidence = arguments.confidence;
  options.rounds = arguments.rounds.value_or(extent.rounds);
  options.rounds_max = arguments.rounds_max.value_or(std::max(options.rounds, extent.rounds_max));
  if (options.rounds_max < options.rounds) {
    throw InputError(InputError::Kind::kUsage, "judge --rounds-max",
                     fmt::format("is {}; allowed: {}, the number of --rounds, or more",
                                 options.rounds_max, options.rounds));
  }
  options.hostile_worlds = arguments.hostile_worlds.value_or(extent.hostile_worlds);
  options.metric = arguments.metric;
  // Policies may begin with the one beside the judge's sets.
  if (const auto chat = FindExperiment("policy_search/judge/chat")) {
    options.host.paths = {chat->parent_path().parent_path()};
  }
  if (!arguments.engine.empty()) {
    options.planning_budget_s = options.host.loading_s = kEngineBudgetSeconds;
  }
  if (arguments.budget_s) options.planning_budget_s = *arguments.budget_s;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  options.host.limits.memory_bytes =
      0;  // the sanitizer's own memory has addresses beyond any limit
  options.host.limits.cpu_seconds = 300;
  options.host.patience_s = 120;
#endif
  options.repeats = options.bounds = !arguments.quick;
  return options;
}

double CpuSeconds() {
  double seconds = 0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage use{};
    getrusage(who, &use);
    for (const timeval& time : {use.ru_utime, use.ru_stime}) {
      seconds += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    }
  }
  return seconds;
}

// The policy that is not twinserve's own; nullopt for one of the registry.
std::optional<PolicyFile> FileOf(const JudgeArguments& arguments, const std::string& asked) {
  std::optional<PolicyFile> file = PolicyFileOf(asked);
  if (!file && !arguments.engine.empty() && asked == arguments.engine) file.emplace();
  if (!file) return std::nullopt;
  if (!file->path.empty()) file->path = std::filesystem::absolute(file->path).string();
  if (!arguments.engine.empty()) file->engine = arguments.engine;
  file->parameters = arguments.parameters;
  return file;
}

void JudgeOne(const JudgeArguments& arguments, const std::string& asked, std::size_t number,
              const run::JudgeSecret& secret, CommandContext& context) {
  const double begin = CpuSeconds();
  TerminalControl control;
  run::JudgeOptions options = OptionsOf(arguments, secret, number);
  const std::vector<run::JudgedCell> cells = CellsOf(arguments, secret.OfCells(options.submission));
  const std::vector<run::JudgedReference> references = ReferencesOf(arguments);
  VerdictHeader header{.policy = asked,
                       .file = "",
                       .file_hash = "",
                       .language = "registry",
                       .set = arguments.experiments.empty() ? arguments.set : "experiments",
                       .set_hash = HexText(HashOf(cells)),
                       .secret = secret,
                       .submission = options.submission,
                       .confidence = arguments.confidence,
                       .cpu_s = 0};
  run::Verdict verdict;
  if (const std::optional<PolicyFile> file = FileOf(arguments, asked)) {
    header.policy = NameOf(*file);
    header.file = asked;
    header.file_hash = HashOfSources(*file);
    header.language = file->path.ends_with(".so") ? "c++" : "python";
    if (header.language == "c++") options.planning_allowed_us = kLibraryPlanningUs;
    verdict = run::Judge(*file, cells, references, options, control);
  } else if (!arguments.parameters.empty()) {
    throw InputError(InputError::Kind::kUsage, "judge --parameter",
                     fmt::format("is of policies in files, which {} is not; allowed: --set for "
                                 "policies of twinserve",
                                 asked));
  } else {
    const auto order = std::ranges::find(KnownReferences(), asked, &KnownReference::name);
    const std::vector<std::string> changes =
        order != KnownReferences().end() ? order->changes : std::vector{PolicyChange(asked)};
    verdict = run::Judge(changes, cells, references, options, control);
  }
  header.cpu_s = CpuSeconds() - begin;
  if (!verdict.sandbox_problem.empty()) {
    std::cerr << fmt::format("twinserve: judge: {} ran unsandboxed: {} (docs/judge.md)\n", asked,
                             verdict.sandbox_problem);
  }
  if (arguments.format == "json") {
    // Names of files may hold any bytes.
    constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
    std::cout << VerdictJson(header, verdict).dump(-1, ' ', false, kReplace) << '\n' << std::flush;
  } else {
    PrintVerdict(std::cout, header, verdict);
  }
  if (verdict.failure || verdict.interrupted) context.exit_code = 1;
}

void JudgeAll(const JudgeArguments& arguments, CommandContext& context) {
  if (arguments.host) {
    run::HostPolicies();
    return;
  }
  if (arguments.policies.empty()) {
    throw InputError(
        InputError::Kind::kUsage, "judge",
        "POLICY is missing; allowed: a file of Python (fair.py:Fair), a shared library "
        "(.so), or the name of a policy");
  }
  std::optional<run::JudgeSecret> given;
  if (!arguments.seed.empty()) given = run::JudgeSecret::Parse(arguments.seed, "judge --seed");
  for (std::size_t i = 0; i < arguments.policies.size(); ++i) {
    // A verdict prints the secret: no later policy is judged by that.
    const run::JudgeSecret secret = given ? *given : run::JudgeSecret::Draw();
    JudgeOne(arguments, arguments.policies[i], i, secret, context);
  }
}

// How much is run, and when a difference counts.
void AddScoringOptions(CommandParser command, JudgeArguments& arguments) {
  command.AddOption("--seed", arguments.seed,
                    "Secret of an earlier verdict, which is repeated, or a number, which hides "
                    "nothing (default: 128 bits of the system for each policy, printed with the "
                    "verdict)");
  command
      .AddOption("--submission", arguments.submission,
                 "This is the k-th policy with this secret: it must be better by more (default: 1)")
      .InRange(std::int64_t{1}, std::int64_t{1'000'000});
  CommandOption cells =
      command
          .AddOption("--cells", arguments.cells,
                     "Pairs of system and load for each workload, drawn from 6; what is left out "
                     "makes the interval wider (default: all 6)")
          .InRange(1, 6);
  command
      .AddOption(
          "--rounds", arguments.rounds,
          "Pairs of runs for each of them (default: 2; with --experiment as many as make 20 pairs, "
          "at least 2; with --quick 1, or 3 of each --experiment)")
      .InRange(1, 1000);
  command
      .AddOption("--rounds-max", arguments.rounds_max,
                 "The same while a comparison is undecided (default: as --rounds; with "
                 "--experiment as many as make 60 pairs)")
      .InRange(1, 1000);
  command.AddOption("--confidence", arguments.confidence, "Of \"better\" (default: 0.97)")
      .InRange(0.5, 0.9999);
  command
      .AddOption("--hostile", arguments.hostile_worlds,
                 "Small worlds in which everything goes wrong (default: 1000; with --engine 200; "
                 "with --quick none)")
      .InRange(0, 1'000'000);
  command
      .AddOption(
          "--budget", arguments.budget_s,
          "Seconds that the policy may plan in all runs together (default: 15; with --engine 600)")
      .InRange(0.1, 1e6);
  cells.Excludes(command.AddFlag(
      "--quick", [&arguments] { arguments.quick = true; },
      "3 pairs, and only the gates that they need: for the steps of a search"));
}

}  // namespace

void SetPolicyHostCommand(std::vector<std::string> words, std::vector<std::string> paths) {
  const std::string program = words.front();
  words.insert(words.end(), {"judge", "--host"});
  run::SetHostCommand({program, std::move(words), std::move(paths)});
}

void AddJudgeCommand(CommandParser app, CommandContext& context) {
  auto arguments = std::make_shared<JudgeArguments>();
  CommandParser command = app.AddCommand(
      "judge",
      "Judge scheduling policies that nobody has read: gates, and a score with confidence");
  command.AddOption(
      "POLICY", arguments->policies,
      "Files of Python (fair.py or fair.py:Fair), shared libraries (.so), or policies "
      "of twinserve; the k-th one counts as a further submission");
  const CommandOption set =
      command.AddOption("--on", arguments->set,
                        "Workloads: judge, search, or a folder of one's own (default: judge)");
  command
      .AddOption("--experiment", arguments->experiments,
                 "Judge on these experiments, with their own policy as the default, in place of "
                 "--on")
      .Excludes(set);
  AddOverrideOptions(command, arguments->assignments);
  command.AddOption(
      "--against", arguments->against,
      "Also compare with default, shortest_prompt, sjf_predicted, srpt_predicted, or "
      "the default policy after a change (default: shortest_prompt and sjf_predicted)");
  command.AddOption(
      "--metric", arguments->metric,
      "Score by this key of summary.json alone; the gates stay (default: latencies of "
      "all offered requests, docs/judge.md)");
  command.AddOption(
      "--engine", arguments->engine,
      "The policies are schedulers of this release, such as vllm==0.33.0: MODULE:CLASS, "
      "a file, or RELEASE for its own scheduler (docs/engines.md)");
  command.AddRepeatable(
      "--parameter", "NAME=VALUE",
      [arguments](const std::string& given) {
        const std::size_t equals = given.find('=');
        if (equals == std::string::npos || equals == 0) {
          throw InputError(InputError::Kind::kUsage, "judge --parameter",
                           fmt::format("is {}; allowed: NAME=VALUE", given));
        }
        arguments->parameters.push_back({given.substr(0, equals), given.substr(equals + 1)});
      },
      "Parameter of policies in files; repeatable");
  AddScoringOptions(command, *arguments);
  command.AddOption("--format", arguments->format, "What to print (default: json)")
      .OneOf({"json", "table"});
  command
      .AddFlag(
          "--host", [arguments] { arguments->host = true; },
          "Host a policy for a judge that starts this process")
      .Group("");
  command.Footer("Exit codes: 0 every policy is valid; 1 one is invalid; 2 wrong usage.");
  command.OnCall([arguments, &context] { JudgeAll(*arguments, context); });
}

}  // namespace twin::apps
