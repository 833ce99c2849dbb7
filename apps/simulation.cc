#include "apps/simulation.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>

#include "apps/interrupt.h"
#include "apps/progress.h"
#include "apps/run_directory.h"
#include "apps/run_observers.h"
#include "apps/version.h"
#include "apps/watched_world.h"
#include "core/input_error.h"
#include "record/recording_world.h"
#include "sched/engine.h"
#include "sched/serve.h"
#include "sim/sim_world.h"

namespace twin::apps {
namespace {

// Prompt + output tokens of one request: the least of what the model can, the memory is planned for
// and the policy allows.
std::int32_t ContextTokensMax(const ExperimentConfig& config) {
  std::int32_t tokens = config.system.model_spec.max_position;
  if (const auto planned = config.system.memory.max_model_length) tokens = *planned;
  const std::int32_t allowed =
      MakePolicy(config.policy, KvPoolConfig{})->traits().context_tokens_max;
  return allowed > 0 ? std::min(tokens, allowed) : tokens;
}

sim::SimWorldOptions WorldOptionsOf(const ExperimentConfig& config, const PolicyTraits& traits) {
  return {.max_model_length = ContextTokensMax(config),
          .named_block_size = traits.caches_prefixes ? config.system.memory.block_size : 0};
}

void RequireHostBlocksForSwaps(const PolicyConfig& policy, const sim::KvCapacity& capacity) {
  const auto* v0 = std::get_if<VllmV0Config>(&policy);
  if (v0 == nullptr || v0->preemption_mode != VllmV0Config::PreemptionMode::kSwap ||
      capacity.host_blocks > 0) {
    return;
  }
  throw InputError(
      InputError::Kind::kUsage, "system.memory.swap_bytes",
      "gives no host blocks, which policy.vllm_v0.preemption_mode swap needs; allowed: "
      "several times " +
          std::to_string(capacity.block_bytes) +
          ", the bytes of a block, with memory.rule vllm_v0 or sarathi");
}

// Legal, but stages then wait for each other.
void WarnOfBubbles(const Parallelism& parallelism, const PolicyTraits& traits) {
  if (traits.steps_in_flight_max >= parallelism.pipeline) return;
  std::cerr << "warning: system.pipeline_parallel is " << parallelism.pipeline << ", but policy."
            << traits.name << " keeps at most " << traits.steps_in_flight_max
            << " in flight: stages will idle\n";
}

// The engine of an experiment: its policy over its KV cache.
EngineConfig EngineConfigOf(const ExperimentConfig& config, const sim::KvCapacity& capacity) {
  RequireHostBlocksForSwaps(config.policy, capacity);
  EngineConfig engine;
  engine.kv = {.block_size = capacity.block_size,
               .blocks = capacity.usable_blocks,
               .host_blocks = capacity.host_blocks,
               .release_order = ReleaseOrderOf(config.policy)};
  engine.prompt_tokens_max = ContextTokensMax(config);
  return engine;
}

// The measured window was cut for workload.requests; with fewer it would be another.
void RequireWholeWindow(const ExperimentConfig& config, std::int64_t arrived) {
  const RunMetricsConfig& metrics = config.metrics;
  if (metrics.head_share + metrics.tail_share == 0 || arrived >= config.workload.requests) return;
  throw InputError(InputError::Kind::kData,
                   metrics.tail_share > 0 ? "metrics.tail_share" : "metrics.head_share",
                   "is a share of workload.requests (" + std::to_string(config.workload.requests) +
                       "), but only " + std::to_string(arrived) +
                       " came; allowed: workload.requests up to that");
}

}  // namespace

RunOutcome RunSimulation(const ExperimentConfig& config, const std::filesystem::path& out,
                         const std::vector<std::string>& command_line) {
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
  WarnOfBubbles(system.parallelism, traits);
  RunDirectory directory(out);
  RunObservers observers(config, engine_config, traits, resolved, directory);
  const InterruptGuard guard;
  RunOutcome outcome;
  {
    Progress progress(config.name, static_cast<std::uint64_t>(config.workload.requests));
    RecordingWorld recorded(simulated, observers.list());
    WatchedWorld world(recorded, progress);
    Serve(engine, world);
    outcome.interrupted = world.stopped_early();
  }
  if (!outcome.interrupted) {
    engine.CheckDrained();
    RequireWholeWindow(config, observers.arrived());
  }

  outcome.summary = observers.Finish();
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
