#include "lab/experiment_run.h"

#include <fmt/format.h>

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
                   fmt::format("is a share of workload.requests ({}), but only {} arrived; "
                               "allowed: workload.requests up to that number",
                               config.workload.requests, arrived));
}

void RequireHostBlocksForSwaps(const PolicyTraits& traits, const sim::KvCapacity& capacity) {
  if (!traits.swaps_to_host || capacity.host_blocks > 0) return;
  throw InputError(InputError::Kind::kUsage, "system.memory.swap_bytes",
                   fmt::format("gives no host blocks, but policy.{} swaps requests to the host; "
                               "allowed: at least {}, the bytes of one block, with memory.rule "
                               "vllm_v0 or sarathi",
                               traits.name, capacity.block_bytes));
}

}  // namespace

std::int32_t ContextTokensMax(const ExperimentConfig& config) {
  std::int32_t tokens = config.system.model_spec.max_position;
  if (const auto planned = config.system.memory.max_model_length) tokens = *planned;
  const std::int32_t allowed = TraitsOf(config.policy).context_tokens_max;
  return allowed > 0 ? std::min(tokens, allowed) : tokens;
}

EngineConfig EngineConfigOf(const ExperimentConfig& config, const sim::KvCapacity& capacity) {
  const PolicyTraits traits = TraitsOf(config.policy);
  RequireHostBlocksForSwaps(traits, capacity);
  EngineConfig engine;
  engine.kv = {.block_size = capacity.block_size,
               .blocks = capacity.usable_blocks,
               .host_blocks = capacity.host_blocks,
               .release_order = traits.release_order};
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
