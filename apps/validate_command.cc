// twinserve validate: real runs, their replay, their prediction, and why they differ.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "apps/commands.h"
#include "apps/terminal_control.h"
#include "core/input_error.h"
#include "exec/comm/mpi_ranks.h"
#include "lab/real/model_device.h"
#include "lab/real/real_run.h"
#include "lab/simulation.h"
#include "lab/validation/validation_directory.h"
#include "lab/validation/validation_report.h"
#include "lab/version.h"
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

// What the measurements of an experiment depend on: everything but the prediction, and this build.
std::string MeasuringKey(ExperimentConfig config) {
  config.cost = {};
  return WriteResolved(config) + "# " + lab::kVersion + " " + lab::kCommit +
         (lab::kDirty ? "+changed\n" : "\n");
}

// Runs are made at the capacity that the first one found.
ExperimentConfig ResolvedBy(const fs::path& run) {
  const fs::path file = run / "config.resolved.textproto";
  return ParseExperiment(lab::FileText(file), file.string(), run);
}

// The real runs, one after the other; false if interrupted.
bool MeasureRuns(ExperimentConfig config, int repeats, const lab::ValidationDirectory& directory,
                 const std::vector<std::string>& command_line, lab::RunControl& control,
                 std::vector<fs::path>& runs) {
  for (int number = 1; number <= repeats; ++number) {
    const fs::path run = directory.Real(number);
    if (!lab::IsCompleteRun(run)) {
      control.OnNote(fmt::format("real run {} of {}", number, repeats));
      if (lab::RunReal(config, run, command_line, control).interrupted) return false;
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

// The experiment with everything that a run resolves, and that comparing is free in, as `run` has
// it.
std::string Comparable(ExperimentConfig config, const ExperimentConfig& run) {
  config.name = run.name;
  config.world = run.world;
  config.system = run.system;
  config.cost = run.cost;
  config.slo = run.slo;
  config.metrics = run.metrics;
  config.outputs = run.outputs;
  return WriteResolved(config);
}

void RequireSameExperiment(const lab::MeasuredRun& run, const ExperimentConfig& asked,
                           const ExperimentConfig& first) {
  RequireComparable(run.config, run.path.string());
  const bool same = Comparable(asked, run.config) == WriteResolved(run.config) &&
                    WriteResolved(run.config) == WriteResolved(first);
  if (same) return;
  throw InputError(
      InputError::Kind::kUsage, run.path.string(),
      "is a run of another experiment; allowed: runs of EXPERIMENT, all on one system");
}

void RequireSameEngine(const lab::MeasuredRun& run, const RecordHeader& simulated) {
  const KvPoolConfig& real = run.header.engine.kv;
  const KvPoolConfig& other = simulated.engine.kv;
  if (real.blocks == other.blocks && real.block_size == other.block_size &&
      real.host_blocks == other.host_blocks) {
    return;
  }
  throw InputError(InputError::Kind::kData, run.path.string(),
                   "had " + std::to_string(real.blocks) + " blocks, its simulation " +
                       std::to_string(other.blocks));
}

std::vector<std::unique_ptr<lab::MeasuredRun>> ReadRuns(const std::vector<fs::path>& paths,
                                                        const ExperimentConfig& asked) {
  std::vector<std::unique_ptr<lab::MeasuredRun>> runs;
  for (const fs::path& path : paths) {
    runs.push_back(std::make_unique<lab::MeasuredRun>());
    lab::ReadMeasuredRun(path, *runs.back());
    RequireSameExperiment(*runs.back(), asked, runs.front()->config);
  }
  return runs;
}

lab::Validation Compare(const std::vector<std::unique_ptr<lab::MeasuredRun>>& runs,
                        const ExperimentConfig& config, const fs::path& simulated) {
  RecordReader reader(simulated / "record.pb");
  RecordedRun events;
  std::vector<const lab::MeasuredRun*> views;
  for (const auto& run : runs) {
    RequireSameEngine(*run, reader.header());
    views.push_back(run.get());
  }
  lab::ReadEvents(reader, events);
  return lab::Validate(views, events, *CostOf(config));
}

// Fitted models answer for the device and the threads that they were measured with.
void RequireFittingCost(const ExperimentConfig& config) {
  const SystemConfig& system = config.system;
  sim::MakeStepCost(config.cost, system.model_spec, system.hardware_spec, system.parallelism, 1);
  const auto* fitted = std::get_if<sim::FittedCostConfig>(&config.cost);
  const auto* real = std::get_if<RealWorldConfig>(&config.world);
  if (fitted == nullptr || real == nullptr) return;
  // Only a CPU's has threads, and only a CUDA device's pads decodes.
  const bool on_cuda = real->device == RealWorldConfig::Device::kCuda;
  if (on_cuda ? fitted->threads > 0 : !fitted->decode_buckets.empty()) {
    throw InputError(InputError::Kind::kUsage, "cost.fitted",
                     "was measured on " + fitted->machine + ", a " + (on_cuda ? "CPU" : "GPU") +
                         "; allowed: one of world.real.device, which is " +
                         (on_cuda ? "CUDA" : "CPU"));
  }
  if (on_cuda) return;
  const auto all = static_cast<std::int32_t>(std::thread::hardware_concurrency());
  const std::int32_t threads = real->threads > 0 ? real->threads : all;
  if (fitted->threads == 0 || fitted->threads == threads) return;
  throw InputError(InputError::Kind::kUsage, "cost.fitted",
                   "was measured with " + std::to_string(fitted->threads) +
                       " threads, world.real runs with " + std::to_string(threads) +
                       "; allowed: the same");
}

void Run(const ValidateArguments& arguments, CommandContext& context) {
  if (!exec::RunsAlone("validate")) return;
  TerminalControl control;
  const ExperimentConfig asked =
      WithRecord(ReadExperiment(arguments.experiment, arguments.assignments));
  RequireComparable(asked, arguments.experiment);
  RequireFittingCost(asked);
  const lab::ValidationDirectory directory(
      arguments.out.empty() ? "runs/" + asked.name + ".validation" : arguments.out);
  std::vector<fs::path> paths(arguments.runs.begin(), arguments.runs.end());
  // Refused before the folder is touched.
  auto runs = ReadRuns(paths, asked);
  if (!runs.empty()) {
    directory.BeginComparing();
  } else {
    lab::RequireDevice("world.real.device", std::get<RealWorldConfig>(asked.world).device, "CPU");
    directory.BeginMeasuring(MeasuringKey(asked));
    if (!MeasureRuns(asked, arguments.repeats, directory, context.command_line, control, paths)) {
      std::cerr << "interrupted: the same command goes on where this one stopped\n";
      context.exit_code = 1;
      return;
    }
    runs = ReadRuns(paths, asked);
  }
  ExperimentConfig config = Simulated(runs.front()->config);
  config.cost = asked.cost;
  if (lab::RunSimulation(config, directory.Simulated(), context.command_line, control)
          .interrupted) {
    context.exit_code = 1;
    return;
  }
  const lab::Validation validation = Compare(runs, config, directory.Simulated());
  std::ostringstream text;
  lab::WriteValidationText(text, validation);
  const std::string json = lab::ValidationJson(validation);
  directory.Write(text.str(), lab::ValidationHtml(validation), json);
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
