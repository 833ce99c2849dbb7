#include "lab/simulation.h"

#include <fmt/format.h>

#include <memory>
#include <variant>
#include <vector>

#include "lab/cost_range_watch.h"
#include "lab/run_directory.h"
#include "lab/run_observers.h"
#include "lab/watched_world.h"
#include "record/recording_world.h"
#include "sched/engine.h"
#include "sched/serve.h"
#include "sim/sim_world.h"

namespace twin::lab {
namespace {

sim::SimWorldOptions WorldOptionsOf(const ExperimentConfig& config, const PolicyTraits& traits) {
  return {.max_model_length = ContextTokensMax(config),
          .named_block_size = traits.caches_prefixes ? config.system.memory.block_size : 0};
}

// Legal, but stages then wait for each other.
void WarnOfBubbles(const Parallelism& parallelism, const PolicyTraits& traits,
                   RunControl& control) {
  if (traits.steps_in_flight_max >= parallelism.pipeline) return;
  control.OnWarning(fmt::format(
      "system.pipeline_parallel is {}, but policy.{} keeps at most {} steps in flight: stages idle",
      parallelism.pipeline, traits.name, traits.steps_in_flight_max));
}

}  // namespace

RunOutcome RunSimulation(const ExperimentConfig& config, const std::filesystem::path& out,
                         const std::vector<std::string>& command_line, RunControl& control) {
  const SystemConfig& system = config.system;
  const sim::KvCapacity capacity = sim::PlanKvCapacity(system.model_spec, system.hardware_spec,
                                                       system.parallelism, system.memory);
  const EngineConfig engine_config = EngineConfigOf(config, capacity);
  Engine engine(engine_config, MakePolicy(config.policy, engine_config.kv));
  const PolicyTraits& traits = engine.policy().traits();
  const std::unique_ptr<sim::StepCost> cost =
      sim::MakeStepCost(config.cost, system.model_spec, system.hardware_spec, system.parallelism,
                        capacity.block_bytes);
  const std::unique_ptr<ArrivalSource> source = MakeWorkload(config.workload, config.seed);
  sim::SimWorld simulated(*source, *cost, WorldOptionsOf(config, traits));

  const std::string resolved = WriteResolved(config);
  WarnOfBubbles(system.parallelism, traits, control);
  RunDirectory directory(out);
  RunObservers observers(config, engine_config, traits, resolved, directory);
  CostRangeWatch range(*cost);
  std::vector<RunObserver*> watching(observers.list().begin(), observers.list().end());
  if (std::holds_alternative<sim::FittedCostConfig>(config.cost)) watching.push_back(&range);
  RunEnd end;
  RecordingWorld recorded(simulated, watching);
  WatchedWorld world(recorded, control, config.name,
                     static_cast<std::uint64_t>(config.workload.requests));
  Serve(engine, world);
  control.OnProgressEnd();
  end.interrupted = world.stopped_early();
  range.Report(control);
  if (!end.interrupted) engine.CheckDrained();
  return CompleteRun(config, engine_config, resolved, command_line, end, observers, directory);
}

}  // namespace twin::lab
