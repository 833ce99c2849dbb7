#include "apps/validate/validate_experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/validate/machine_speed.h"
#include "apps/validate/validation_directory.h"
#include "core/input_error.h"
#include "run/cost_cache.h"
#include "run/deployment.h"
#include "run/draft_model_spec.h"
#include "run/files/record_file.h"
#include "run/measured_run.h"
#include "run/real/model_device.h"
#include "run/real/real_run.h"
#include "run/simulation.h"
#include "run/version.h"
#include "sim/cost/cost_config.h"
#include "sim/cost/fitted_config.h"
#include "sim/devices/profile_config.h"
#include "sim/devices/step_profile.h"

namespace twin::run {
namespace {

namespace fs = std::filesystem;

ExperimentConfig WithRecord(ExperimentConfig config) {
  config.outputs.record = true;
  return config;
}

// Refuses experiments whose real and simulated runs cannot be compared.
void RequireComparable(const ExperimentConfig& config, const std::string& experiment) {
  const auto refuse = [&](const char* what) {
    throw InputError(InputError::Kind::kUsage, experiment, what);
  };
  const auto* real = std::get_if<RealWorldConfig>(&config.world);
  if (real == nullptr) refuse("world: is not real; allowed: world { real {} }");
  if (!real->pin_output_lengths) {
    refuse(
        "world.real.pin_output_lengths: must be true: a simulation cannot know where a model ends");
  }
  if (config.system.parallelism.pipeline > 1) {
    refuse(
        "system.pipeline_parallel: must be 1: the times of overlapping steps cannot be compared");
  }
  if (config.system.disaggregation) {
    refuse(
        "system.disaggregation: must be absent: copies within one machine are no link of a "
        "simulation");
  }
}

// Identifies the measurements of an experiment: all of its fields except the cost model, and the
// build.
std::string MeasuringKey(ExperimentConfig config) {
  config.cost = {};
  return fmt::format("{}# {} {}{}\n", WriteResolved(config), kVersion, kCommit,
                     kDirty ? "+changed" : "");
}

// The configuration that a run resolved. Later runs use it, so that all have the same KV cache.
ExperimentConfig ResolvedBy(const fs::path& run) {
  const fs::path file = run / "config.resolved.textproto";
  return ParseExperiment(FileText(file), file.string(), run);
}

// The real runs, one after the other; false if interrupted.
bool MeasureRuns(ExperimentConfig config, int repeats, const ValidationDirectory& directory,
                 const std::vector<std::string>& command_line, RunControl& control,
                 std::vector<fs::path>& runs) {
  for (int number = 1; number <= repeats; ++number) {
    const fs::path run = directory.Real(number);
    if (!IsCompleteRun(run)) {
      control.OnNote(fmt::format("real run {} of {}", number, repeats));
      if (RunReal(config, run, command_line, control).interrupted) return false;
    }
    if (number == 1) {
      std::vector<InputFile> files = std::move(config.input_files);
      config = ResolvedBy(run);
      config.input_files = std::move(files);
    }
    runs.push_back(run);
  }
  return true;
}

// The clients of a real run are in its own process, so that no boundary of a profile is added.
ExperimentConfig Simulated(ExperimentConfig config) {
  config.world = SimulatedWorldConfig{.client_timeout =
                                          std::get<RealWorldConfig>(config.world).client_timeout};
  if (!config.system.boundary) config.system.boundary.emplace();
  return config;
}

// The real world's engine is this program: a profile predicts the host of its executor, not that of
// the policy's own system.
void PredictOwnExecutor(sim::CostConfig& cost) {
  auto* const profile = cost.If<sim::ProfileCostConfig>();
  if (profile == nullptr || profile->engine != sim::StepEngine::kFromPolicy) return;
  profile->engine = sim::StepEngine::kTwinserve;
}

// The experiment with every field that a run resolves or that does not affect its events taken from
// `run`.
std::string Comparable(ExperimentConfig config, const ExperimentConfig& run) {
  config.name = run.name;
  const std::optional<Duration> client_timeout =
      std::get<RealWorldConfig>(config.world).client_timeout;
  config.world = run.world;
  std::get<RealWorldConfig>(config.world).client_timeout = client_timeout;
  config.system = run.system;
  config.cost = run.cost;
  config.cost_given = run.cost_given;
  config.slo = run.slo;
  config.metrics = run.metrics;
  config.outputs = run.outputs;
  return WriteResolved(config);
}

void RequireSameExperiment(const MeasuredRun& run, const ExperimentConfig& asked,
                           const ExperimentConfig& first) {
  RequireComparable(run.config, run.path.string());
  const bool same = Comparable(asked, run.config) == WriteResolved(run.config) &&
                    WriteResolved(run.config) == WriteResolved(first);
  if (same) return;
  throw InputError(
      InputError::Kind::kUsage, run.path.string(),
      "is a run of another experiment; allowed: runs of EXPERIMENT, all on one system");
}

void RequireSameEngine(const MeasuredRun& run, const RecordHeader& simulated) {
  const KvPoolConfig& real = run.header.engine.kv;
  const KvPoolConfig& other = simulated.engine.kv;
  if (real.blocks == other.blocks && real.block_size == other.block_size &&
      real.host_blocks == other.host_blocks) {
    return;
  }
  throw InputError(
      InputError::Kind::kData, run.path.string(),
      fmt::format("had {} KV blocks, but its simulation has {}", real.blocks, other.blocks));
}

std::vector<std::unique_ptr<MeasuredRun>> ReadRuns(const std::vector<fs::path>& paths,
                                                   const ExperimentConfig& asked) {
  std::vector<std::unique_ptr<MeasuredRun>> runs;
  for (const fs::path& path : paths) {
    runs.push_back(std::make_unique<MeasuredRun>());
    ReadMeasuredRun(path, *runs.back());
    RequireSameExperiment(*runs.back(), asked, runs.front()->config);
  }
  return runs;
}

// Lets the cost model predict at the speed that the machine had during the runs.
std::optional<MachineSpeed> AdoptSpeed(const std::vector<std::unique_ptr<MeasuredRun>>& runs,
                                       ExperimentConfig& config, RunControl& control) {
  auto* fitted = config.cost.If<sim::FittedCostConfig>();
  if (fitted == nullptr) return std::nullopt;
  const std::optional<MachineSpeed> speed = SpeedDuring(runs, *fitted);
  if (!speed) {
    control.OnNote(
        "the speed of the machine was not measured in all runs and in the profile; the "
        "prediction assumes that it is equal");
    return std::nullopt;
  }
  fitted->decode_slowdown = speed->decode_slowdown;
  fitted->prefill_slowdown = speed->prefill_slowdown;
  return speed;
}

// Simulates once more at the profile's speed: the difference is the effect of the machine's.
void AddEffectOfSpeed(const MachineSpeed& speed, ExperimentConfig config, Validation& validation) {
  auto& fitted = config.cost.Get<sim::FittedCostConfig>();
  fitted.decode_slowdown = fitted.prefill_slowdown = 1;
  RunControl silent;
  const Summary at_profile = Simulate(Resolve(config), silent).summary;
  validation.speed = speed;
  for (MetricComparison& metric : validation.metrics) {
    metric.machine_speed = metric.predicted - at_profile.Number(metric.name);
  }
}

Validation Compare(const std::vector<std::unique_ptr<MeasuredRun>>& runs,
                   const ExperimentConfig& config, const fs::path& simulated, CostCache& costs) {
  RecordReader reader(simulated / "record.pb");
  RecordedRun events;
  std::vector<const MeasuredRun*> views;
  for (const auto& run : runs) {
    RequireSameEngine(*run, reader.header());
    views.push_back(run.get());
  }
  ReadEvents(reader, events);
  return Validate(views, events, *Resolve(config, costs).cost);
}

// The default cost model would predict a machine that nobody named.
void RequireCost(const ExperimentConfig& config, const std::string& experiment) {
  if (config.cost_given) return;
  throw InputError(InputError::Kind::kUsage, experiment,
                   "cost: is missing; allowed: the cost model to validate, such as cost { fitted "
                   "{ path: \"FILE\" } } from `twinserve fit`, or cost { roofline {} }");
}

// A fitted model predicts only the device and the threads that it was measured with.
void RequireFittingCost(const ExperimentConfig& config) {
  const SystemConfig& system = config.system;
  RequireDraftCost(config);
  sim::MakeStepCost(config.cost, system.model_spec, system.hardware_spec, system.parallelism, 1);
  const auto* fitted = config.cost.If<sim::FittedCostConfig>();
  const auto* real = std::get_if<RealWorldConfig>(&config.world);
  if (fitted == nullptr || real == nullptr) return;
  // Only a CPU's has threads, and only a CUDA device's pads decodes.
  const bool on_cuda = real->device == RealWorldConfig::Device::kCuda;
  if (on_cuda ? fitted->threads > 0 : !fitted->decode_buckets.empty()) {
    throw InputError(InputError::Kind::kUsage, "cost.fitted",
                     fmt::format("was measured on a {} ({}), but world.real.device is {}; allowed: "
                                 "a cost model measured on that device",
                                 on_cuda ? "CPU" : "GPU", fitted->machine, Name(real->device)));
  }
  if (on_cuda) return;
  const auto all = static_cast<std::int32_t>(std::thread::hardware_concurrency());
  const std::int32_t threads =
      real->threads > 0 ? real->threads
                        : std::max(all / (system.parallelism.devices() * system.replicas), 1);
  if (fitted->threads == 0 || fitted->threads == threads) return;
  throw InputError(
      InputError::Kind::kUsage, "cost.fitted",
      fmt::format("was measured with {} threads, but world.real runs with {}; allowed: "
                  "the same number",
                  fitted->threads, threads));
}

}  // namespace

ValidationOutcome ValidateExperiment(const ValidationRequest& request, RunControl& control) {
  const ExperimentConfig asked = WithRecord(request.config);
  RequireComparable(asked, request.source);
  RequireCost(asked, request.source);
  RequireFittingCost(asked);
  const ValidationDirectory directory(request.out);
  ValidationOutcome outcome{.validation = {}, .page = directory.Page()};
  std::vector<fs::path> paths = request.runs;
  // Refused before the folder is touched.
  auto runs = ReadRuns(paths, asked);
  if (!runs.empty()) {
    directory.BeginComparing();
  } else {
    RequireDevice("world.real.device", std::get<RealWorldConfig>(asked.world).device, "cpu");
    directory.BeginMeasuring(MeasuringKey(asked));
    if (!MeasureRuns(asked, request.repeats, directory, request.command_line, control, paths)) {
      return outcome;
    }
    runs = ReadRuns(paths, asked);
  }
  ExperimentConfig config = Simulated(runs.front()->config);
  config.cost = asked.cost;
  PredictOwnExecutor(config.cost);
  config.input_files = asked.input_files;
  const std::optional<MachineSpeed> speed = AdoptSpeed(runs, config, control);
  CostCache costs;
  if (RunSimulation(config, directory.Simulated(), request.command_line, control, 1, &costs)
          .interrupted) {
    return outcome;
  }
  outcome.validation = Compare(runs, config, directory.Simulated(), costs);
  for (const fs::path& path : paths) {
    outcome.validation->run_paths.push_back(fs::proximate(path, request.out).generic_string());
  }
  if (speed) AddEffectOfSpeed(*speed, config, *outcome.validation);
  directory.Write(*outcome.validation);
  return outcome;
}

}  // namespace twin::run
