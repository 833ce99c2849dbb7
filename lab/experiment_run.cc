#include "lab/experiment_run.h"

#include <algorithm>
#include <sstream>

#include "core/input_error.h"

namespace twin::lab {
namespace {

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

void RequireHostBlocksForSwaps(const PolicyConfig& policy, const sim::KvCapacity& capacity) {
  if (!SwapsToHost(policy) || capacity.host_blocks > 0) return;
  throw InputError(
      InputError::Kind::kUsage, "system.memory.swap_bytes",
      "gives no host blocks, which policy.vllm_v0.preemption_mode swap needs; allowed: "
      "several times " +
          std::to_string(capacity.block_bytes) +
          ", the bytes of a block, with memory.rule vllm_v0 or sarathi");
}

}  // namespace

std::int32_t ContextTokensMax(const ExperimentConfig& config) {
  std::int32_t tokens = config.system.model_spec.max_position;
  if (const auto planned = config.system.memory.max_model_length) tokens = *planned;
  const std::int32_t allowed =
      MakePolicy(config.policy, KvPoolConfig{})->traits().context_tokens_max;
  return allowed > 0 ? std::min(tokens, allowed) : tokens;
}

bool SwapsToHost(const PolicyConfig& policy) {
  const auto* v0 = std::get_if<VllmV0Config>(&policy);
  return v0 != nullptr && v0->preemption_mode == VllmV0Config::PreemptionMode::kSwap;
}

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

RunOutcome CompleteRun(const ExperimentConfig& config, const EngineConfig& engine,
                       const std::string& resolved, const std::vector<std::string>& command_line,
                       const RunEnd& end, RunObservers& observers, RunDirectory& directory) {
  if (!end.interrupted) RequireWholeWindow(config, observers.arrived());
  RunOutcome outcome{observers.Finish(), end.interrupted};
  Summary& summary = outcome.summary;
  summary.Set("kv_blocks", std::int64_t{engine.kv.blocks});
  for (const SummaryEntry& entry : end.more.entries()) summary.Set(entry.name, entry.value);
  summary.Set("interrupted", std::int64_t{end.interrupted ? 1 : 0});
  directory.WriteText("config.resolved.textproto", resolved);
  directory.WriteText("provenance.json", ProvenanceJson(config, resolved, command_line));
  const ProcessUse use = UseOfThisProcess();
  summary.Set("cpu_seconds", use.cpu_seconds);
  summary.Set("peak_rss_mib", use.peak_rss_mib);
  std::ostringstream json;
  WriteJson(json, summary);
  directory.WriteText("summary.json", json.str());
  directory.Commit();
  return outcome;
}

}  // namespace twin::lab
