// twinserve validate: real runs of this program, runs of its server, and measured runs of other
// servers, each beside its prediction.
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/asked/asked_options.h"
#include "apps/commands.h"
#include "apps/options.h"
#include "apps/page/plotly.h"
#include "apps/terminal_control.h"
#include "apps/validate/measured_comparison.h"
#include "apps/validate/measured_page.h"
#include "apps/validate/measured_report.h"
#include "apps/validate/real_validation.h"
#include "core/files/output_file.h"
#include "core/input_error.h"
#include "run/measured_result.h"
#include "run/record/metric_catalog.h"
#include "run/record/metric_table.h"
#include "run/served_run.h"

namespace twin::apps {
namespace {

namespace fs = std::filesystem;

struct ValidateArguments {
  RealValidation real;  // its folder, changes and format are also those of the other forms
  std::string served;
  std::string format = "table";
  SystemQuestion question;
};

void PrintServed(const run::ServedComparison& comparison, const std::string& format) {
  if (format == "json") {
    std::cout << run::ServedComparisonJson(comparison);
    return;
  }
  const std::array<NamedSummary, 2> columns = {NamedSummary{"served", &comparison.served.measured},
                                               NamedSummary{"simulated", &comparison.simulated}};
  const std::vector<std::string> names(HeadlineMetrics().begin(), HeadlineMetrics().end());
  WriteTable(std::cout, MetricTable(columns, names), TableFormat::kText);
}

void CompareServed(const ValidateArguments& arguments, CommandContext& context) {
  TerminalControl control;
  const run::ServedComparison comparison =
      run::CompareServedRun(arguments.served, arguments.real.changes, control);
  const run::ServedRun& served = comparison.served;
  if (served.replay.difference) {
    std::cout << served.replay.difference->text() << "\n";
    context.exit_code = 1;
    return;
  }
  PrintServed(comparison, arguments.format);
  control.OnNote(
      fmt::format("{} requests, {} of which did not complete, and {} refused; digest {}{}",
                  served.requests.size(), served.departures.size(), served.refused.size(),
                  served.replay.digest_text, served.complete ? "" : "; the record has no end"));
}

// "load.csv", or "load_2.csv" for the second of several runs.
fs::path LoadFile(const fs::path& out, std::size_t run, std::size_t runs) {
  return out / (runs == 1 ? std::string("load.csv") : fmt::format("load_{}.csv", run + 1));
}

fs::path MeasuredFolder(const fs::path& out, std::size_t run, std::size_t runs) {
  return out / (runs == 1 ? std::string("measured") : fmt::format("measured_{}", run + 1));
}

void CompareMeasuredRuns(ValidateArguments& arguments) {
  SystemQuestion& question = arguments.question;
  question.changes = arguments.real.changes;
  std::vector<BenchmarkRun> runs = ReadBenchmarkRuns(question.measured);
  const fs::path out = arguments.real.out.empty()
                           ? "runs/" + fs::path(question.measured).stem().string() + ".measured"
                           : arguments.real.out;
  std::vector<MeasuredSystem> systems;
  std::vector<MeasuredLoad> loads;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    TakeLoadOptions(question, runs[i]);
    systems.push_back(ReadMeasuredSystem(question, runs[i]));
    loads.push_back(PlanLoad(runs[i], LoadFile(out, i, runs.size()), "validate"));
  }
  MakeOutputFolder(out);
  TerminalControl control;
  std::vector<NamedComparison> compared;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    WriteLoad(runs[i], LoadFile(out, i, runs.size()));
    run::WriteMeasuredFolder(runs[i], MeasuredFolder(out, i, runs.size()));
    compared.push_back({runs[i].name, CompareMeasured(runs[i], systems[i], loads[i], control)});
    PrintComparison(std::cout, compared.back());
  }
  WriteFile(out / "errors.csv", ErrorsCsv(compared));
  WriteFile(out / "parts.csv", PartsCsv(compared));
  WriteFile(out / "report.md", ReportMarkdown(compared));
  if (run::PlotlyScript().empty()) {
    control.OnNote(fmt::format("wrote {}; this program has no Plotly, which report.html needs",
                               (out / "report.md").string()));
    return;
  }
  WriteFile(out / "report.html", MeasuredPage(compared));
  control.OnNote(fmt::format("wrote {}, and report.md", (out / "report.html").string()));
}

void RefuseSystemAlone(const ValidateArguments& arguments) {
  const auto refuse = [](const std::string& option) {
    throw InputError(InputError::Kind::kUsage, "validate: " + option,
                     "describes the system of a measured run; allowed: with --measured FILE");
  };
  if (!arguments.question.system.empty()) refuse("--system");
  if (const auto option = arguments.question.options.First()) refuse(option->name);
}

void Run(ValidateArguments& arguments, CommandContext& context) {
  if (!RunsAlone()) return;
  if (!arguments.question.measured.empty()) {
    if (arguments.format == "json") {
      throw InputError(InputError::Kind::kUsage, "validate: --format",
                       "is json; allowed with --measured: table, beside errors.csv and parts.csv");
    }
    CompareMeasuredRuns(arguments);
    return;
  }
  RefuseSystemAlone(arguments);
  if (!arguments.served.empty()) {
    CompareServed(arguments, context);
    return;
  }
  if (arguments.real.experiment.empty()) {
    throw InputError(InputError::Kind::kUsage, "EXPERIMENT",
                     "is missing; allowed: without it, --served or --measured");
  }
  arguments.real.json = arguments.format == "json";
  ValidateReal(arguments.real, context);
}

}  // namespace

void AddValidateCommand(CommandParser app, CommandContext& context) {
  auto arguments = std::make_shared<ValidateArguments>();
  RealValidation& real = arguments->real;
  CommandParser command =
      app.AddCommand("validate",
                     "Compare real or measured runs with their prediction; attribute "
                     "errors");
  CommandOption experiment =
      command.AddOption("EXPERIMENT", real.experiment, "Experiment with a real world");
  AddOverrideOptions(command, real.changes);
  command.AddOption("--out", real.out,
                    "Folder to write (default: runs/NAME.validation, or .measured)");
  command
      .AddOption("--repeats", real.repeats,
                 "Number of real runs (default: 2); two or more show how much equal runs differ")
      .InRange(1, 100);
  CommandOption runs =
      command.AddOption("--runs", real.runs, "Run directories to compare instead of new runs");
  CommandOption served =
      command
          .AddOption("--served", arguments->served,
                     "Run directory of `twinserve serve`: simulate what its clients did, and "
                     "compare")
          .Excludes(experiment);
  command
      .AddOption("--measured", arguments->question.measured,
                 "Result of vLLM's or SGLang's benchmark, AIPerf, inference-perf or guidellm, or a "
                 "log of requests: simulate its load and compare; the system comes from --system, "
                 "or from the options from --model on and the file")
      .Excludes(experiment)
      .Excludes(runs)
      .Excludes(served);
  command.AddOption("--system", arguments->question.system,
                    "Experiment file whose system, policy and cost model served the measured run");
  command.AddOption("--format", arguments->format, "What to print (default: table)")
      .OneOf({"table", "json"});
  AddExperimentOptions(command, arguments->question.options, "--system");
  command.OnCall([arguments, &context] { Run(*arguments, context); });
}

}  // namespace twin::apps
