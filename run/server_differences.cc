#include "run/server_differences.h"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "config/servers/layer_defaults.h"
#include "config/servers/servers.h"
#include "core/arrival_source.h"
#include "traces/answered_at_once.h"
#include "traces/trace_statistics.h"
#include "traces/workload.h"

namespace twin::run {
namespace {

// Share of the prompt tokens of the first requests that repeat the start of an earlier prompt.
double SharedTokens(const ExperimentConfig& config) {
  constexpr std::int64_t kRequests = 2000;
  const std::unique_ptr<ArrivalSource> source = MakeWorkload(config.workload, config.seed);
  TraceStatistics statistics;
  VisitAnsweredAtOnce(*source, [&](const TracedRequest& request) {
    statistics.Add(request);
    return statistics.requests() < kRequests;
  });
  return statistics.hit_token_share();
}

}  // namespace

std::vector<std::string> ServerDifferences(const ExperimentConfig& config) {
  const SystemConfig& system = config.system;
  if (!system.server || config.own_policy != nullptr) return {};
  const std::string& asked = system.server_asked ? *system.server_asked : *system.server;
  const std::optional<ListedServer> listed = FindServer(asked);
  const PolicyTraits traits = TraitsOf(config);
  if (!listed || listed->preset->policy != traits.name) return {};
  const LayerDefaults layers = DefaultsOfModel(listed->server->layer_rules, listed->version,
                                               system.model_spec, system.hardware_spec);
  std::optional<double> shared;
  const auto share = [&] {
    if (!shared) shared = SharedTokens(config);
    return *shared;
  };
  std::vector<std::string> lines;
  for (const DefaultDifference& difference : layers.differences) {
    std::string line = fmt::format("system.server: {} {}", asked, difference.text);
    switch (difference.matters) {
      case DifferenceMatters::kAlways:
      case DifferenceMatters::kBesideFullLayers:
        break;
      case DifferenceMatters::kSharedPrefixes:
        if (!traits.caches_prefixes || share() == 0) continue;
        break;
      case DifferenceMatters::kUncachedPrefixes:
        if (share() == 0) continue;
        line +=
            fmt::format("; {:.2g} % of the prompt tokens repeat earlier prompts", 100 * share());
        break;
      case DifferenceMatters::kStages:
        if (system.parallelism.pipeline == 1) continue;
        if (IsSetByUser(config, "policy.vllm_v1.async_scheduling") == true) continue;
        break;
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace twin::run
