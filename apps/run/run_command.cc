// twinserve run: one experiment in the world that it names.
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>

#include "apps/built_parts.h"
#include "apps/commands.h"
#include "apps/experiment_options/asked_experiment.h"
#include "apps/missing_command.h"
#include "apps/options.h"
#include "apps/run/real_runs.h"
#include "apps/run/run_answer.h"
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

namespace twin::apps {
namespace {

struct RunArguments {
  AskedExperiment experiment;
  std::string out;
  std::string written;  // the experiment as a file
  std::string format = "table";
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
  if (launched == 1 || launched == ranks) return config;
  throw InputError(InputError::Kind::kUsage, "mpirun",
                   "started " + std::to_string(launched) + " ranks; " +
                       (real ? "system.tensor_parallel times system.pipeline_parallel is "
                             : "a simulated world has ") +
                       std::to_string(ranks));
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

void Print(const RunArguments& arguments, const ExperimentConfig& config, const std::string& out,
           const run::RunOutcome& outcome, CountedReports& control) {
  std::vector<std::string> notes = arguments.experiment.IgnoredNotes();
  if (arguments.format == "json") {
    WriteJson(std::cout, outcome.summary);
    for (const std::string& note : notes) std::cerr << note << "\n";
    return;
  }
  if (arguments.experiment.from_options() && arguments.format == "table") {
    const std::string file =
        arguments.written.empty() ? out + "/config.resolved.textproto" : arguments.written;
    const int warnings = control.warnings();
    const Certainty certainty = CertaintyOf(config, outcome.summary, control);
    WriteAnswer(std::cout, {config, arguments.experiment.made(), outcome.summary, certainty, notes,
                            warnings, file});
    return;
  }
  const TableFormat format = FindTableFormat(arguments.format).value();
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
  const std::string out = arguments.out.empty() ? "runs/" + config.name : arguments.out;
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
  command.AddOption("--out", arguments->out, "Run directory (default: runs/NAME)");
  command
      .AddOption(
          "--format", arguments->format,
          "What to print: a table of the main metrics, for options with the bottleneck and what "
          "to try; summary.json; or the metrics as Markdown or LaTeX")
      .OneOf({"table", "json", "markdown", "latex"});
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
