// twinserve validate: real runs, their replay, their prediction, and why they differ.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "apps/commands.h"
#include "apps/real_run.h"
#include "apps/simulation.h"
#include "apps/validation/validation_report.h"
#include "core/input_error.h"
#include "proto/experiment_config.h"
#include "sim/cost/registry.h"

namespace twin::apps {
namespace {

namespace fs = std::filesystem;

struct ValidateArguments {
  std::string experiment;
  std::vector<std::string> assignments;
  std::vector<std::string> runs;
  std::string out;
  std::string format = "table";
  int repeats = 2;
};

std::string FileText(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Beside its name first, so that nobody reads half of it.
void WriteFile(const fs::path& file, const std::string& text) {
  fs::path partial = file;
  partial += ".partial";
  {
    std::ofstream out(partial, std::ios::binary);
    out << text;
    out.flush();
    if (!out) throw std::system_error(errno, std::generic_category(), partial.string());
  }
  fs::rename(partial, file);
}

ExperimentConfig WithRecord(ExperimentConfig config) {
  config.outputs.record = true;
  return config;
}

// What the comparison can speak of.
void RequireComparable(const ExperimentConfig& config, const std::string& experiment) {
  const auto refuse = [&](const char* what) {
    throw InputError(InputError::Kind::kUsage, experiment, what);
  };
  const auto* real = std::get_if<RealWorldConfig>(&config.world);
  if (real == nullptr) refuse("is no real world; allowed: world { real {} }");
  if (!real->pin_output_lengths) {
    refuse(
        "world.real.pin_output_lengths: must be true: a simulation cannot know where a model ends");
  }
  if (real->client_timeout) {
    refuse("world.real.client_timeout_s: must be absent: simulated clients do not leave");
  }
  if (config.system.parallelism.pipeline > 1) {
    refuse("system.pipeline_parallel: must be 1: steps that overlap have no time of their own");
  }
}

// The folder of a validation; what an interrupted one of the same experiment has measured stays.
class ValidationDirectory {
 public:
  ValidationDirectory(fs::path path, const std::string& asked) : path_(std::move(path)) {
    if (fs::exists(path_) && !fs::is_empty(path_) && !fs::exists(path_ / kAsked)) {
      throw InputError(InputError::Kind::kUsage, path_.string(),
                       "is there and is no validation; allowed: a new name, or an earlier one's");
    }
    const bool resumes =
        fs::exists(path_ / kAsked) && !fs::exists(Json()) && FileText(path_ / kAsked) == asked;
    if (!resumes) fs::remove_all(path_);
    fs::create_directories(path_);
    WriteFile(path_ / kAsked, asked);
  }

  [[nodiscard]] fs::path Real(int number) const {
    return path_ / ("real_" + std::to_string(number));
  }
  [[nodiscard]] fs::path Simulated() const { return path_ / "simulated"; }
  [[nodiscard]] fs::path Json() const { return path_ / "validation.json"; }
  [[nodiscard]] fs::path Text() const { return path_ / "report.txt"; }
  [[nodiscard]] fs::path Page() const { return path_ / "report.html"; }

  // A real run that an earlier call brought to its end.
  [[nodiscard]] static bool IsComplete(const fs::path& run) {
    return fs::exists(run / "parts.csv") &&
           FileText(run / "summary.json").find("\"interrupted\": 0") != std::string::npos;
  }

 private:
  static constexpr const char* kAsked = "experiment.textproto";
  fs::path path_;
};

// Runs are made at the capacity that the first one found.
ExperimentConfig ResolvedBy(const fs::path& run) {
  const fs::path file = run / "config.resolved.textproto";
  return ParseExperiment(FileText(file), file.string(), run);
}

// The real runs, one after the other; false if interrupted.
bool MeasureRuns(ExperimentConfig config, int repeats, const ValidationDirectory& directory,
                 const std::vector<std::string>& command_line, std::vector<fs::path>& runs) {
  for (int number = 1; number <= repeats; ++number) {
    const fs::path run = directory.Real(number);
    if (!ValidationDirectory::IsComplete(run)) {
      std::cerr << "real run " << number << " of " << repeats << "\n";
      if (RunReal(config, run, command_line).interrupted) return false;
    }
    if (number == 1) config = ResolvedBy(run);
    runs.push_back(run);
  }
  return true;
}

ExperimentConfig Simulated(ExperimentConfig config) {
  config.world = SimulatedWorldConfig{};
  return config;
}

std::unique_ptr<sim::StepCost> CostOf(const ExperimentConfig& config) {
  const SystemConfig& system = config.system;
  const sim::KvCapacity capacity = sim::PlanKvCapacity(system.model_spec, system.hardware_spec,
                                                       system.parallelism, system.memory);
  return sim::MakeStepCost(config.cost, system.model_spec, system.hardware_spec, system.parallelism,
                           capacity.block_bytes);
}

void RequireSameEngine(const MeasuredRun& run, const RecordHeader& other, const fs::path& path) {
  const auto text = [](const RecordHeader& header) {
    const EngineConfig& engine = header.engine;
    return header.policy + " with " + std::to_string(engine.kv.blocks) + " blocks of " +
           std::to_string(engine.kv.block_size) + " and " + std::to_string(engine.kv.host_blocks) +
           " on the host";
  };
  if (text(run.header) == text(other)) return;
  throw InputError(
      InputError::Kind::kData, path.string(),
      "is of " + text(other) + ", but " + run.path.string() + " of " + text(run.header));
}

Validation ValidateRuns(const std::vector<fs::path>& paths, const ExperimentConfig& config,
                        const fs::path& simulated) {
  std::vector<std::unique_ptr<MeasuredRun>> runs;
  std::vector<const MeasuredRun*> views;
  for (const fs::path& path : paths) {
    runs.push_back(std::make_unique<MeasuredRun>());
    ReadMeasuredRun(path, *runs.back());
    RequireSameEngine(*runs.front(), runs.back()->header, path);
    views.push_back(runs.back().get());
  }
  RecordReader reader(simulated / "record.pb");
  RequireSameEngine(*runs.front(), reader.header(), simulated);
  RecordedRun events;
  ReadEvents(reader, events);
  return Validate(views, events, *CostOf(config));
}

void Run(const ValidateArguments& arguments, CommandContext& context) {
  ExperimentConfig asked = WithRecord(ReadExperiment(arguments.experiment, arguments.assignments));
  RequireComparable(asked, arguments.experiment);
  const ValidationDirectory directory(
      arguments.out.empty() ? "runs/" + asked.name + ".validation" : arguments.out,
      WriteResolved(asked));
  std::vector<fs::path> runs(arguments.runs.begin(), arguments.runs.end());
  if (runs.empty() &&
      !MeasureRuns(asked, arguments.repeats, directory, context.command_line, runs)) {
    std::cerr << "interrupted: the same command goes on where this one stopped\n";
    context.exit_code = 1;
    return;
  }
  // The model under test is the one asked for; all else is as the runs resolved it.
  ExperimentConfig config = Simulated(ResolvedBy(runs.front()));
  config.cost = asked.cost;
  if (RunSimulation(config, directory.Simulated(), context.command_line).interrupted) {
    context.exit_code = 1;
    return;
  }
  const Validation validation = ValidateRuns(runs, config, directory.Simulated());
  std::ostringstream text;
  WriteValidationText(text, validation);
  WriteFile(directory.Text(), text.str());
  WriteFile(directory.Page(), ValidationHtml(validation));
  const std::string json = ValidationJson(validation);
  WriteFile(directory.Json(), json);
  std::cout << (arguments.format == "json" ? json : text.str());
  std::cerr << "wrote " << directory.Page().string() << "\n";
  if (!validation.digest_equal) context.exit_code = 1;
}

}  // namespace

void AddValidateCommand(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<ValidateArguments>();
  CLI::App* command =
      app.add_subcommand("validate", "Measure, replay and predict an experiment; attribute errors");
  command->add_option("EXPERIMENT", arguments->experiment, "Experiment with a real world")
      ->required();
  command->add_option("--set", arguments->assignments, "path=value, laid over the file; repeatable")
      ->allow_extra_args(false);
  command->add_option("--out", arguments->out, "Folder (default: runs/NAME.validation)");
  command
      ->add_option("--repeats", arguments->repeats,
                   "Real runs; from two on, their noise is told (default 2)")
      ->check(CLI::Range(1, 100));
  command->add_option("--runs", arguments->runs, "Run directories to compare instead of new runs");
  command->add_option("--format", arguments->format, "Form of the results on stdout")
      ->check(CLI::IsMember({"table", "json"}));
  command->callback([arguments, &context] { Run(*arguments, context); });
}

}  // namespace twin::apps
