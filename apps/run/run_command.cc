// twinserve run: one experiment in the world that it names.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "apps/built_parts.h"
#include "apps/commands.h"
#include "apps/experiment_options/asked_experiment.h"
#include "apps/missing_command.h"
#include "apps/options.h"
#include "apps/run/real_runs.h"
#include "apps/run/run_answer.h"
#include "apps/run/tried_changes.h"
#include "apps/terminal_control.h"
#include "config/experiment_config.h"
#include "core/files/output_file.h"
#include "core/input_error.h"
#include "run/export/vllm_bench.h"
#include "run/many/parallel_runs.h"
#include "run/record/loss_warning.h"
#include "run/record/metric_catalog.h"
#include "run/record/metric_table.h"
#include "run/simulation.h"
#include "run/uncertainty_comparison.h"

namespace twin::apps {
namespace {

namespace fs = std::filesystem;

constexpr int kDrawsOfAnswer = 20;

struct RunArguments {
  AskedExperiment experiment;
  std::string out;
  std::string written;  // the experiment as a file
  std::string format = "table";
  int draws = -1;  // not given
  std::string exported;
  int jobs = 0;
};

// Throws InputError (usage) unless mpirun started as many processes as the experiment has ranks.
ExperimentConfig ReadForRanks(RunArguments& arguments, std::int32_t launched) {
  ExperimentConfig config = arguments.experiment.Read();
  const bool real = IsReal(config.world);
  const std::int32_t ranks = real ? config.system.parallelism.devices() : 1;
  if (!arguments.exported.empty() && !config.outputs.record) {
    throw InputError(InputError::Kind::kUsage, "--export", "needs outputs.record: true");
  }
  if (arguments.jobs > 0 && real) {
    throw InputError(InputError::Kind::kUsage, "--jobs",
                     "the experiment's world is real; allowed: with a simulated world");
  }
  if (arguments.draws > 0 && arguments.draws < run::kDrawsMin) {
    throw InputError(InputError::Kind::kUsage, "--draws",
                     std::to_string(arguments.draws) +
                         " have no interval of 90 %; allowed: 0, or at least " +
                         std::to_string(run::kDrawsMin));
  }
  if (launched == 1 || launched == ranks) return config;
  throw InputError(InputError::Kind::kUsage, "mpirun",
                   "started " + std::to_string(launched) + " ranks; " +
                       (real ? "system.tensor_parallel times system.pipeline_parallel is "
                             : "a simulated world has ") +
                       std::to_string(ranks));
}

// Whether the command line that made a run directory has the same arguments.
bool IsRunOf(const fs::path& directory, const std::vector<std::string>& line) {
  std::ifstream file(directory / "provenance.json");
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("command_line")) return false;
  const nlohmann::json& made_by = json["command_line"];
  if (!made_by.is_array() || made_by.size() != line.size()) return false;
  // Element 0 is the path of the program.
  return std::equal(made_by.begin() + 1, made_by.end(), line.begin() + 1);
}

// runs/NAME; NAME-2, NAME-3, ... for options whose NAME belongs to a run of other options.
std::string DirectoryOf(const RunArguments& arguments, const ExperimentConfig& config,
                        const std::vector<std::string>& line) {
  if (!arguments.out.empty()) return arguments.out;
  const std::string first = "runs/" + config.name;
  std::string directory = first;
  if (!arguments.experiment.from_options()) return directory;
  for (int i = 2; fs::exists(directory) && !IsRunOf(directory, line); ++i) {
    directory = first + "-" + std::to_string(i);
  }
  return directory;
}

// Shows reports on the terminal, and counts warnings.
class CountedReports final : public run::RunControl {
 public:
  void OnProgress(std::string_view what, std::uint64_t done, std::uint64_t total) override {
    terminal_.OnProgress(what, done, total);
  }
  void OnProgressEnd() override { terminal_.OnProgressEnd(); }
  void OnWarning(const std::string& text) override {
    ++warnings_;
    terminal_.OnWarning(text);
  }
  void OnNote(const std::string& text) override { terminal_.OnNote(text); }
  [[nodiscard]] bool StopRequested() const override { return terminal_.StopRequested(); }

  [[nodiscard]] int warnings() const { return warnings_; }

 private:
  TerminalControl terminal_;
  int warnings_ = 0;
};

// Writes the experiment for --write-config.
void WriteExperiment(const RunArguments& arguments, const ExperimentConfig& config) {
  if (arguments.written.empty()) return;
  WriteFile(arguments.written, arguments.experiment.Text(config));
  std::cerr << "wrote " << arguments.written << "\n";
}

// The answer for people: latencies with intervals, the bottleneck, and what was tried.
void PrintAnswer(const RunArguments& arguments, const ExperimentConfig& config,
                 const std::string& out, const Summary& summary,
                 const std::vector<std::string>& notes, CountedReports& control) {
  const AskedExperiment& experiment = arguments.experiment;
  const std::string file =
      arguments.written.empty() ? out + "/config.resolved.textproto" : arguments.written;
  const bool repeats = arguments.draws > 0 || (arguments.draws < 0 && experiment.from_options());
  const int draws = arguments.draws > 0 ? arguments.draws : kDrawsOfAnswer;
  const int warnings = control.warnings();
  const Certainty certainty = CertaintyOf(config, summary, repeats ? draws : 0, control);
  const AdvisedRun advised{
      config,  summary,
      repeats, experiment.from_options(),
      file,    [&](const std::vector<std::string>& more) { return experiment.With(more); }};
  WriteAnswer(std::cout, {config, experiment.made(), summary, certainty, notes, warnings,
                          AdviceOn(advised, control)});
}

void Print(const RunArguments& arguments, const ExperimentConfig& config, const std::string& out,
           const run::RunOutcome& outcome, CountedReports& control) {
  std::vector<std::string> notes = arguments.experiment.SortedOptions();
  if (arguments.format == "json") {
    WriteJson(std::cout, outcome.summary);
    for (const std::string& note : notes) std::cerr << note << "\n";
    return;
  }
  if (arguments.format == "table") {
    PrintAnswer(arguments, config, out, outcome.summary, notes, control);
    return;
  }
  const TableFormat format =
      arguments.format == "keys" ? TableFormat::kText : FindTableFormat(arguments.format).value();
  const NamedSummary column{config.name, &outcome.summary};
  WriteTable(std::cout, MetricTable({&column, 1}, HeadlineMetrics()), format);
  notes.insert(notes.begin(), FewRequestsNote(outcome.summary));
  for (const std::string& note : notes) {
    if (!note.empty()) WriteRemark(std::cout, note, format);
  }
}

// `real_runs`: null in a program that runs no models.
run::RunOutcome RunIn(const std::string& out, const RunArguments& arguments,
                      const ExperimentConfig& config, const CommandContext& context,
                      RealRuns* real_runs, run::RunControl& control) {
  if (!IsReal(config.world)) {
    return run::RunSimulation(config, out, context.command_line, control,
                              arguments.jobs > 0 ? arguments.jobs : run::DefaultJobs());
  }
  if (real_runs == nullptr) throw NotBuilt("world.real", "TWIN_EXEC");
  return real_runs->Run(config, out, context.command_line, control);
}

void Run(RunArguments& arguments, CommandContext& context) {
  std::unique_ptr<RealRuns> real_runs;
  if constexpr (kHasExec) real_runs = MakeRealRuns();
  ExperimentConfig config;
  if (real_runs == nullptr) {
    config = ReadForRanks(arguments, 1);
  } else {
    const auto read = [&] { config = ReadForRanks(arguments, real_runs->launched()); };
    if (!real_runs->ReadTogether(read) || (real_runs->rank() > 0 && !real_runs->Follow(config))) {
      context.exit_code = 1;
      return;
    }
    if (real_runs->rank() > 0) return;
  }
  WriteExperiment(arguments, config);
  CountedReports control;
  const std::string out = DirectoryOf(arguments, config, context.command_line);
  const run::RunOutcome outcome = RunIn(out, arguments, config, context, real_runs.get(), control);
  Print(arguments, config, out, outcome, control);
  if (!arguments.exported.empty()) {
    run::ExportVllmBench(
        out, outcome.summary,
        arguments.exported == "vllm" ? run::VllmDetail::kTotals : run::VllmDetail::kPerRequest);
  }
  std::cerr << "wrote " << out << "\n";
  if (outcome.interrupted) {
    std::cerr << "interrupted: the results cover what had happened until then\n";
    context.exit_code = 1;
  }
}

}  // namespace

void AddRunCommand(CommandParser app, CommandContext& context) {
  auto arguments = std::make_shared<RunArguments>();
  CommandParser command = app.AddCommand(
      "run", "Run one experiment, from a file or from options, in the world that it names");
  arguments->experiment.AddTo(command, "run", context.command_line);
  command.AddOption("--write-config", arguments->written,
                    "Also write the experiment to this file, with a comment for each value that "
                    "nobody gave");
  command.AddOption(
      "--out", arguments->out,
      "Run directory (default: runs/NAME, or runs/NAME-2, ... if options differ from those of "
      "the run that lies there)");
  command
      .AddOption("--format", arguments->format,
                 "What to print: a table of latencies and counts, with the bottleneck and the "
                 "changes that "
                 "helped when they were tried; the main metrics by the keys of summary.json; "
                 "summary.json; or the main metrics as Markdown or LaTeX")
      .OneOf({"table", "keys", "json", "markdown", "latex"});
  command
      .AddOption(
          "--draws", arguments->draws,
          "Repetitions of a simulated run for the intervals of the table, after which changes "
          "are tried; 0: neither (default: 20 for options, 0 for a file)")
      .InRange(0, 10'000);
  command
      .AddOption("--export", arguments->exported,
                 "Also write the results as `vllm bench serve` does, to vllm_bench.json in the "
                 "run directory; vllm-detailed adds the lists per request")
      .OneOf({"vllm", "vllm-detailed"});
  command
      .AddOption("--jobs", arguments->jobs,
                 "Threads that simulate the replicas of a cluster; the results do not depend on "
                 "their number (default: one per core)")
      .InRange(1, 1024);
  command.OnCall([arguments, &context] { Run(*arguments, context); });
}

}  // namespace twin::apps
