#include "apps/simulation.h"

#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include "apps/interrupt.h"
#include "apps/progress.h"
#include "apps/run_directory.h"
#include "apps/run_observers.h"
#include "apps/version.h"
#include "apps/watched_world.h"
#include "record/recording_world.h"
#include "sched/engine.h"
#include "sched/serve.h"
#include "sim/sim_world.h"

namespace twin::apps {
namespace {

sim::SimWorldOptions WorldOptionsOf(const ExperimentConfig& config, const PolicyTraits& traits) {
  const sim::MemoryConfig& memory = config.system.memory;
  return {
      .max_model_length = memory.max_model_length.value_or(config.system.model_spec.max_position),
      .named_block_size = traits.caches_prefixes ? memory.block_size : 0};
}

}  // namespace

EngineConfig EngineConfigOf(const ExperimentConfig& config) {
  const SystemConfig& system = config.system;
  const sim::KvCapacity capacity = sim::PlanKvCapacity(system.model_spec, system.hardware_spec,
                                                       system.parallelism, system.memory);
  EngineConfig engine;
  engine.kv = {.block_size = capacity.block_size,
               .blocks = capacity.usable_blocks,
               .host_blocks = capacity.host_blocks,
               .release_order = ReleaseOrderOf(config.policy)};
  return engine;
}

RunOutcome RunSimulation(const ExperimentConfig& config, const std::filesystem::path& out,
                         const std::vector<std::string>& command_line) {
  const SystemConfig& system = config.system;
  const sim::KvCapacity capacity = sim::PlanKvCapacity(system.model_spec, system.hardware_spec,
                                                       system.parallelism, system.memory);
  const EngineConfig engine_config = EngineConfigOf(config);
  Engine engine(engine_config, MakePolicy(config.policy, engine_config.kv));
  const PolicyTraits& traits = engine.policy().traits();
  const std::unique_ptr<sim::StepCost> cost =
      sim::MakeStepCost(config.cost, system.model_spec, system.hardware_spec, system.parallelism,
                        capacity.block_bytes);
  const std::unique_ptr<ArrivalSource> source = MakeWorkload(config.workload, config.seed);
  sim::SimWorld simulated(*source, *cost, WorldOptionsOf(config, traits));

  const std::string resolved = WriteResolved(config);
  RunDirectory directory(out);
  RunObservers observers(config, engine_config, traits, resolved, directory);
  const InterruptGuard guard;
  {
    Progress progress(config.name, static_cast<std::uint64_t>(config.workload.requests));
    RecordingWorld recorded(simulated, observers.list());
    WatchedWorld world(recorded, progress);
    Serve(engine, world);
  }
  RunOutcome outcome;
  outcome.interrupted = InterruptGuard::interrupted();
  if (!outcome.interrupted) engine.CheckDrained();

  outcome.summary = observers.Finish();
  outcome.summary.Set("simulated_seconds", Seconds(simulated.now()));
  outcome.summary.Set("kv_blocks", std::int64_t{engine_config.kv.blocks});
  outcome.summary.Set("interrupted", std::int64_t{outcome.interrupted ? 1 : 0});
  directory.WriteText("config.resolved.textproto", resolved);
  directory.WriteText("provenance.json", ProvenanceJson(config, resolved, command_line));
  const ProcessUse use = UseOfThisProcess();
  outcome.summary.Set("cpu_seconds", use.cpu_seconds);
  outcome.summary.Set("peak_rss_mib", use.peak_rss_mib);
  std::ostringstream json;
  WriteJson(json, outcome.summary);
  directory.WriteText("summary.json", json.str());
  directory.Commit();
  return outcome;
}

}  // namespace twin::apps
