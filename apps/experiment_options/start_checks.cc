#include "apps/experiment_options/start_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "config/servers/launch_command.h"
#include "config/servers/servers.h"
#include "core/input_error.h"
#include "core/layer_groups.h"
#include "run/deployment.h"
#include "sim/devices/kv_capacity.h"

namespace twin::apps {
namespace {

constexpr std::int32_t kRanksMost = 64;

[[noreturn]] void RefuseStart(const std::string& where, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, where, what);
}

bool Divides(const ModelSpec& model, std::int32_t ranks) {
  try {
    Validate(model, {.tensor = ranks});
    return true;
  } catch (const InputError&) {
    return false;
  }
}

std::int32_t MostHeads(const ModelSpec& model) {
  std::int32_t most = 0;
  for (const LayerGroup& group : OrderedLayers(model)) {
    most = std::max(most, group.layer.query_heads);
  }
  return most;
}

std::vector<std::int32_t> RanksOf(const ModelSpec& model) {
  std::vector<std::int32_t> ranks;
  for (std::int32_t count = 1; count <= MostHeads(model); ++count) {
    if (Divides(model, count)) ranks.push_back(count);
  }
  return ranks;
}

// The longest request for which the KV cache has room; 0 if not even the weights fit.
std::int64_t TokensThatFit(const SystemConfig& system) {
  sim::MemoryConfig memory = system.memory;
  memory.max_model_length = 1;
  try {
    const sim::KvCapacity capacity =
        sim::PlanKvCapacity(system.model_spec, system.hardware_spec, system.parallelism, memory);
    return std::int64_t{capacity.usable_blocks} * capacity.block_size;
  } catch (const InputError&) {
    return 0;
  }
}

bool Starts(const SystemConfig& system) {
  try {
    (void)sim::PlanKvCapacity(system.model_spec, system.hardware_spec, system.parallelism,
                              system.memory);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

// The flag with which the server shortens the longest request; empty without a known server.
std::string_view LengthFlag(const SystemConfig& system) {
  const auto listed = system.server ? FindServer(*system.server) : std::nullopt;
  return listed ? FlagOf(listed->server->family, Setting::kMaxModelLen) : std::string_view();
}

// "--tp 4 or more, or --tp 2 with --max-model-len 33248 or less". The second part is the first
// number of ranks that holds the weights, if it is smaller.
std::string WaysOut(const ExperimentTemplate& made, const ExperimentConfig& config) {
  const std::string_view flag = LengthFlag(config.system);
  std::string shorter;
  for (const std::int32_t ranks : RanksOf(config.system.model_spec)) {
    if (ranks < config.system.parallelism.tensor || ranks > kRanksMost) continue;
    const ExperimentConfig more =
        made.With(std::vector{fmt::format("system.tensor_parallel={}", ranks)}, {});
    if (Starts(more.system)) {
      return fmt::format("--tp {} or more{}{}", ranks, shorter.empty() ? "" : ", or ", shorter);
    }
    const std::int64_t tokens = TokensThatFit(more.system);
    if (tokens == 0 || flag.empty() || !shorter.empty()) continue;
    const bool same = ranks == config.system.parallelism.tensor;
    shorter = fmt::format("{}{} {} or less", same ? "" : fmt::format("--tp {} with ", ranks), flag,
                          tokens);
  }
  return shorter.empty() ? "more memory per device (--hardware), or fewer bytes per weight"
                         : shorter;
}

double Gigabytes(double bytes) { return bytes * 1e-9; }

std::string BoardsText(const SystemConfig& system) {
  const std::int32_t devices = system.parallelism.devices();
  return devices == 1 ? system.hardware_spec.name
                      : fmt::format("{} x {}", devices, system.hardware_spec.name);
}

// The largest length that a distribution of the options can draw.
std::optional<std::int64_t> Longest(const IntegerDistribution& lengths) {
  using Kind = IntegerDistribution::Kind;
  if (lengths.kind == Kind::kFixed) return lengths.value;
  return lengths.kind == Kind::kUniform ? std::optional<std::int64_t>(lengths.max) : std::nullopt;
}

}  // namespace

void RequireDivision(const std::string& where, const ModelSpec& model, std::int64_t ranks) {
  const std::vector<std::int32_t> allowed = RanksOf(model);
  if (std::ranges::find(allowed, ranks) != allowed.end()) return;
  RefuseStart(where, fmt::format("is {}; allowed: divisors of the {} heads of {}: {}", ranks,
                                 MostHeads(model), model.name, fmt::join(allowed, ", ")));
}

void RequireFit(const ExperimentTemplate& made, const ExperimentConfig& config,
                const std::string& where) {
  const SystemConfig& system = config.system;
  if (!system.groups.empty() || Starts(system)) return;
  const std::string ways_out = WaysOut(made, config);
  const std::string& model = system.model_spec.name;
  const std::int64_t tokens = TokensThatFit(system);
  if (tokens > 0) {
    RefuseStart(
        where,
        fmt::format("{}: a request of {} tokens does not fit into the KV cache of {} "
                    "tokens of {}; allowed: {}",
                    model, run::ContextTokensMax(config), tokens, BoardsText(system), ways_out));
  }
  const auto weights = static_cast<double>(WeightBytesPerRank(system.model_spec, {}, 0));
  const double memory = static_cast<double>(system.hardware_spec.memory_bytes) *
                        system.memory.utilization.value_or(1) * system.parallelism.devices();
  RefuseStart(
      where,
      fmt::format("{}: {:.1f} GB of weights do not fit into {:.1f} GB of {}; allowed: {}", model,
                  Gigabytes(weights), Gigabytes(memory), BoardsText(system), ways_out));
}

void RequireShortRequests(const ExperimentConfig& config, const std::string& where) {
  const RequestShape& shape = config.workload.shape;
  const std::optional<std::int64_t> prompt = Longest(shape.prompt);
  const std::optional<std::int64_t> output = Longest(shape.output);
  const std::int32_t limit = run::ContextTokensMax(config);
  if (!prompt || !output || limit <= 0) return;
  const bool shares = shape.shared_prefix.prompts > 0;
  const std::int64_t input = *prompt + (shares ? shape.shared_prefix.tokens : 0);
  if (input + *output <= limit) return;
  const bool of_model = limit == config.system.model_spec.max_position;
  RefuseStart(
      where,
      fmt::format("{} + {} tokens exceed {} {}; allowed: {} together", input, *output,
                  of_model ? config.system.model_spec.name + "'s" : "the limit of", limit, limit));
}

}  // namespace twin::apps
