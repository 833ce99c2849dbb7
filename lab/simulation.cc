#include "lab/simulation.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <variant>

#include "lab/config_warnings.h"
#include "lab/cost_range_watch.h"
#include "lab/deployed_groups.h"
#include "lab/output_size.h"
#include "lab/run_directory.h"
#include "lab/run_files.h"
#include "lab/simulated_parts.h"
#include "lab/watched_world.h"
#include "record/recording_world.h"
#include "sched/serve.h"
#include "sim/sim_world.h"

namespace twin::lab {
namespace {

// Fitted cost models know what they were measured on.
bool AnyIsFitted(const ExperimentConfig& config) {
  const auto is_fitted = [](const auto& one) {
    return std::holds_alternative<sim::FittedCostConfig>(one.cost);
  };
  return is_fitted(config) || std::ranges::any_of(config.system.groups, is_fitted);
}

// Serves the workload to its end; true if `control` ended it early. `parts` may be null.
bool ServeSimulated(const Deployment& deployment, RunMetrics& metrics, PartTotals* parts,
                    RunControl& control) {
  const ExperimentConfig& config = deployment.config;
  const std::unique_ptr<ArrivalSource> source = MakeWorkload(config.workload, config.seed);
  CostRangeWatch range(CostsByReplica(deployment));
  std::vector<RunObserver*> observers(metrics.observers().begin(), metrics.observers().end());
  if (AnyIsFitted(config)) observers.push_back(&range);
  sim::SimWorld simulated(*source, *deployment.cost, deployment.world);
  std::optional<PartsWatchingWorld> watched;
  if (parts != nullptr) watched.emplace(simulated, *deployment.cost, *parts);
  World& timed = watched ? static_cast<World&>(*watched) : simulated;
  RecordingWorld recorded(timed, observers);
  WatchedWorld world(recorded, control, config.name,
                     static_cast<std::uint64_t>(config.workload.requests));
  const auto serve = [&world](auto& scheduler) {
    Serve(scheduler, world);
    if (!world.stopped_early()) scheduler.CheckDrained();
  };
  if (config.system.replicas == 1) {
    serve(*MakeEngine(deployment));
  } else {
    serve(*MakeCluster(deployment));
  }
  control.OnProgressEnd();
  range.Report(control);
  return world.stopped_early();
}

}  // namespace

RunOutcome Simulate(const Deployment& deployment, RunControl& control,
                    const RunWatchers& watchers) {
  RunMetrics metrics(deployment, watchers);
  const bool interrupted = ServeSimulated(deployment, metrics, nullptr, control);
  return SumUp(deployment, metrics, Summary(), interrupted);
}

RunOutcome RunSimulation(const ExperimentConfig& config, const std::filesystem::path& out,
                         const std::vector<std::string>& command_line, RunControl& control) {
  const Deployment deployment = Resolve(config);
  const std::string resolved = WriteResolved(deployment.config);
  for (const std::string& warning : WarningsOf(deployment)) control.OnWarning(warning);
  if (const auto note = LargeOutputNote(deployment.config)) control.OnNote(*note);
  RunDirectory directory(out, &control);
  RunFiles files(deployment, resolved, directory);
  std::optional<PartTotals> parts;
  if (deployment.config.outputs.record && HasParts(*deployment.cost) &&
      deployment.config.system.replicas == 1) {
    parts.emplace(directory.File("parts.csv"));
    parts->DrawOn(files.perfetto());
  }
  RunMetrics metrics(deployment, files.watchers());
  const bool interrupted = ServeSimulated(deployment, metrics, parts ? &*parts : nullptr, control);
  if (parts) parts->Finish();
  files.Finish(metrics.tracker());
  RunOutcome outcome = SumUp(deployment, metrics, Summary(), interrupted);
  ReportLosses(outcome, control);
  CompleteDirectory(deployment, resolved, command_line, std::nullopt, outcome, directory);
  return outcome;
}

}  // namespace twin::lab
