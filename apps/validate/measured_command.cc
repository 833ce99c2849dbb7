#include "apps/validate/measured_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <filesystem>
#include <iostream>

#include "apps/experiment_options/given_options.h"
#include "apps/page/plotly.h"
#include "apps/terminal_control.h"
#include "apps/validate/measured_comparison.h"
#include "apps/validate/measured_load.h"
#include "apps/validate/measured_page.h"
#include "apps/validate/measured_report.h"
#include "core/files/output_file.h"
#include "core/input_error.h"
#include "run/client_metrics.h"
#include "run/measured_result.h"
#include "traces/metric_snapshots.h"
#include "traces/step_records.h"

namespace twin::apps {
namespace {

namespace fs = std::filesystem;

// "load.csv", or "load_2.csv" for the second of several runs.
fs::path LoadFile(const fs::path& out, std::size_t run, std::size_t runs) {
  return out / (runs == 1 ? std::string("load.csv") : fmt::format("load_{}.csv", run + 1));
}

fs::path MeasuredFolder(const fs::path& out, std::size_t run, std::size_t runs) {
  return out / (runs == 1 ? std::string("measured") : fmt::format("measured_{}", run + 1));
}

std::vector<BenchmarkRun> ReadRuns(const MeasuredArguments& arguments) {
  const std::vector<std::string>& files = arguments.files;
  if (files.size() > 2) {
    throw InputError(
        InputError::Kind::kUsage, "validate: --measured",
        fmt::format("names {} files; allowed: one, or two snapshots of /metrics", files.size()));
  }
  if (files.size() == 2) return {ReadMetricSnapshots(files[0], files[1])};
  if (arguments.between_s) {
    throw InputError(InputError::Kind::kUsage, "validate: --between",
                     "is the time between two snapshots of /metrics; allowed: with --measured "
                     "BEFORE AFTER");
  }
  return ReadBenchmarkRuns(files[0]);
}

std::optional<StepRecords> ReadSteps(const MeasuredArguments& arguments, std::size_t runs) {
  if (arguments.steps.empty()) return std::nullopt;
  if (runs != 1) {
    throw InputError(
        InputError::Kind::kUsage, "validate: --steps",
        fmt::format("are those of one run, and {} holds {}; allowed: a file of one run",
                    arguments.files.front(), runs));
  }
  return ReadStepRecords(arguments.steps);
}

// Rates of the time between two snapshots.
void TakeTime(const std::optional<double>& seconds, BenchmarkRun& run) {
  if (!seconds) return;
  const double rate = run.totals.at("completed") / *seconds;
  run.totals[run::kThroughput] = rate;
  run.totals["output_throughput"] = run.totals.at("total_output_tokens") / *seconds;
  if (!run.rate && !run.cap) run.rate = rate;
}

void WriteReports(const fs::path& out, const std::vector<NamedComparison>& compared,
                  run::RunControl& control) {
  WriteFile(out / "errors.csv", ErrorsCsv(compared));
  WriteFile(out / "parts.csv", PartsCsv(compared));
  if (compared.front().comparison.steps) {
    WriteFile(out / "steps.csv", compared.front().comparison.steps->csv);
  }
  WriteFile(out / "report.md", ReportMarkdown(compared));
  if (run::PlotlyScript().empty()) {
    control.OnNote(fmt::format("wrote {}; this program has no Plotly, which report.html needs",
                               (out / "report.md").string()));
    return;
  }
  WriteFile(out / "report.html", MeasuredPage(compared));
  control.OnNote(fmt::format("wrote {}, and report.md", (out / "report.html").string()));
}

}  // namespace

CommandOption AddMeasuredOptions(CommandParser command, const std::vector<std::string>& line,
                                 MeasuredArguments& arguments) {
  CommandOption measured = command.AddOption(
      "--measured", arguments.files,
      "Result of vLLM's or SGLang's benchmark, AIPerf, inference-perf or guidellm, or a log of "
      "requests, or two snapshots of /metrics of vLLM or SGLang, before and after the run: "
      "simulate its load and compare; the system comes from --system, or from the options from "
      "--model on and the file");
  command
      .AddOption("--between", arguments.between_s,
                 "Seconds between two snapshots of /metrics: gives rates, and the load unless "
                 "--rate or --concurrency does")
      .InRange(1e-3, 1e9);
  command.AddOption("--steps", arguments.steps,
                    "Files with a record of each step of the run's server, as Dynamo's --fpm-trace "
                    "writes them (ForwardPassMetrics, JSON lines, plain or gzip): compare each "
                    "with the time that the cost model predicts for its batch");
  command.AddOption("--system", arguments.question.system,
                    "Experiment file whose system, policy and cost model served the measured run");
  AddExperimentOptions(command, line, arguments.question.options, "--system");
  return measured;
}

void CompareMeasuredRuns(const MeasuredArguments& arguments,
                         const std::vector<std::string>& changes, const std::string& out_folder) {
  SystemQuestion question = arguments.question;
  question.changes = changes;
  question.measured = fmt::format("{}", fmt::join(arguments.files, " "));
  std::vector<BenchmarkRun> runs = ReadRuns(arguments);
  const std::optional<StepRecords> steps = ReadSteps(arguments, runs.size());
  const fs::path out =
      out_folder.empty() ? "runs/" + fs::path(arguments.files.back()).stem().string() + ".measured"
                         : out_folder;
  std::vector<MeasuredSystem> systems;
  std::vector<MeasuredLoad> loads;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    TakeLoadOptions(question, runs[i]);
    TakeTime(arguments.between_s, runs[i]);
    systems.push_back(ReadMeasuredSystem(question, runs[i]));
    loads.push_back(PlanLoad(runs[i], LoadFile(out, i, runs.size()), "validate"));
  }
  MakeOutputFolder(out);
  TerminalControl control;
  std::vector<NamedComparison> compared;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    WriteLoad(runs[i], LoadFile(out, i, runs.size()));
    run::WriteMeasuredFolder(runs[i], MeasuredFolder(out, i, runs.size()));
    const MeasuredQuestion asked{runs[i], systems[i], loads[i], steps ? &*steps : nullptr};
    compared.push_back({runs[i].name, CompareMeasured(asked, control)});
    PrintComparison(std::cout, compared.back());
  }
  WriteReports(out, compared, control);
}

void RefuseMeasuredOptions(const MeasuredArguments& arguments) {
  const auto refuse = [](const std::string& option) {
    throw InputError(InputError::Kind::kUsage, "validate: " + option,
                     "describes a measured run or its system; allowed: with --measured FILE");
  };
  if (!arguments.question.system.empty()) refuse("--system");
  if (arguments.between_s) refuse("--between");
  if (!arguments.steps.empty()) refuse("--steps");
  if (const auto option = arguments.question.options.FirstGiven()) refuse(option->name);
}

}  // namespace twin::apps
