#include "apps/validate/measured_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/experiment_options/option_names.h"
#include "apps/experiment_options/option_values.h"
#include "apps/validate/measured_load.h"
#include "config/servers/server_name.h"
#include "config/servers/servers.h"
#include "sched/policy/vllm_v1.h"
#include "sim/cost/boundary_config.h"
#include "sim/devices/profile_config.h"

namespace twin::apps {
namespace {

using Kind = Variant::Kind;

// Each field of the list at 0.
std::vector<std::string> AtZero(std::initializer_list<const char*> fields) {
  std::vector<std::string> changes;
  for (const char* field : fields) changes.push_back(fmt::format("cost.profile.{}=0", field));
  return changes;
}

void AddParts(const ExperimentConfig& config, const run::Deployment& deployment,
              std::vector<Variant>& variants) {
  const auto add = [&](const char* name, std::vector<std::string> changes) {
    variants.push_back({Kind::kPart, name, std::move(changes)});
  };
  if (sim::HasDelays(deployment.world.boundary)) {
    add("boundary", {kWithoutBoundary});
  }
  if (config.cost.If<sim::ProfileCostConfig>() != nullptr) {
    add("device state", AtZero({"heat_factor", "decode_heat_factor", "hidden_gap_s"}));
    add("host",
        AtZero({"host_s", "host_per_item_s", "graph_gap_s", "eager_gap_s", "layer_launch_s"}));
  }
  if (config.system.memory.blocks_override) {
    add("known KV blocks", {"!system.memory.blocks_override"});
  }
  const bool is_vllm_v1 = deployment.config.policy.If<VllmV1Config>() != nullptr;
  if (is_vllm_v1 && deployment.traits.steps_in_flight_max > 1) {
    add("asynchronous scheduling", {"policy.vllm_v1.async_scheduling=false"});
  }
  if (config.cost.If<sim::RooflineCostConfig>() == nullptr) {
    variants.push_back({Kind::kStepTimes,
                        "step times of the cost model (a roofline instead)",
                        {"cost=roofline {}"}});
  }
}

void AddVersion(const SystemConfig& system, std::vector<Variant>& variants) {
  if (!system.server) return;
  const std::optional<ListedServer> listed = FindServer(*system.server);
  if (!listed) return;
  const auto& presets = listed->server->presets;
  const auto at = std::ranges::find(presets, listed->preset->name, &ServerPreset::name);
  if (at == presets.begin() || at == presets.end()) return;
  const std::string_view older = std::prev(at)->name;
  variants.push_back({Kind::kFact,
                      fmt::format("an older server ({})", ServerTitle(older, "")),
                      {fmt::format("system.server={}", older)}});
}

void AddFacts(const ExperimentConfig& config, const run::Deployment& deployment,
              std::vector<Variant>& variants) {
  const auto add = [&](std::string name, std::string change) {
    variants.push_back({Kind::kFact, std::move(name), {std::move(change)}});
  };
  const std::string budget = FieldOfPolicy(deployment.traits.name, Setting::kTokenBudget);
  const std::int32_t tokens = deployment.traits.tokens_per_step_max;
  if (!budget.empty() && tokens > 1) {
    add(fmt::format("half the token budget ({})", tokens / 2),
        fmt::format("{}={}", budget, tokens / 2));
    add(fmt::format("twice the token budget ({})", 2 * std::int64_t{tokens}),
        fmt::format("{}={}", budget, 2 * std::int64_t{tokens}));
  }
  const std::string cache = FieldOfPolicy(deployment.traits.name, Setting::kPrefixCaching);
  if (!cache.empty()) {
    const bool on = deployment.traits.caches_prefixes || deployment.traits.keeps_prefix_tree;
    add(on ? "prefix cache off" : "prefix cache on", fmt::format("{}={}", cache, !on));
  }
  const std::int32_t blocks = deployment.capacity.blocks;
  for (const double share : {0.8, 1.2}) {
    const std::int64_t changed = std::llround(share * blocks);
    add(fmt::format("{:+.0f} % KV blocks ({})", 100 * (share - 1), changed),
        fmt::format("system.memory.blocks_override={}", changed));
  }
  AddVersion(config.system, variants);
}

}  // namespace

std::vector<Variant> VariantsOf(const ExperimentConfig& config, const run::Deployment& deployment) {
  std::vector<Variant> variants;
  AddParts(config, deployment, variants);
  if (config.system.groups.empty()) AddFacts(config, deployment, variants);
  return variants;
}

}  // namespace twin::apps
