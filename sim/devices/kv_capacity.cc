#include "sim/devices/kv_capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "core/check.h"
#include "core/input_error.h"
#include "core/layer_groups.h"
#include "core/layer_work.h"
#include "sched/cache/group_tables.h"
#include "sched/cache/kv_limits.h"
#include "sched/policy/policy.h"
#include "sim/cost/dataflow_cost.h"
#include "sim/devices/kv_grouping.h"

namespace twin::sim {
namespace {

// Part of the free memory that DeepSpeed-MII keeps back.
constexpr double kMiiReserveBytes = 1e9;
// TGI_WIGGLE_ROOM: share of the measured free memory that TGI dares to use.
constexpr double kTgiWiggleRoom = 0.9;
// More than any machine has. A pool takes some tens of bytes per block.

struct Rule {
  MemoryRule rule;
  std::string_view name;
  double utilization;  // default
};

constexpr Rule kRules[] = {
    {MemoryRule::kVllmV1, "vllm_v1", 0.9},  {MemoryRule::kVllmV0, "vllm_v0", 0.9},
    {MemoryRule::kSarathi, "sarathi", 0.8}, {MemoryRule::kVidur, "vidur", 0.9},
    {MemoryRule::kMii, "mii", 1.0},         {MemoryRule::kTgi, "tgi", 1.0},
    {MemoryRule::kTrtLlm, "trtllm", 0.9},   {MemoryRule::kSglang, "sglang", 0.88},
    {MemoryRule::kOrca, "orca", 1.0},       {MemoryRule::kShip, "ship", 1.0}};

const Rule& RowOf(MemoryRule rule) {
  const Rule* const row = std::find_if(std::begin(kRules), std::end(kRules),
                                       [rule](const Rule& entry) { return entry.rule == rule; });
  CHECK(row != std::end(kRules));
  return *row;
}

[[noreturn]] void Refuse(const std::string& what) {
  throw InputError(InputError::Kind::kUsage, "system.memory", what);
}

std::string Gigabytes(std::int64_t bytes) {
  return fmt::format("{:.3f} GB", static_cast<double>(bytes) * 1e-9);
}

bool TakesCacheTokens(MemoryRule rule) {
  return rule == MemoryRule::kTrtLlm || rule == MemoryRule::kSglang || rule == MemoryRule::kOrca;
}

bool SwapsToHost(MemoryRule rule) {
  return rule == MemoryRule::kVllmV0 || rule == MemoryRule::kSarathi;
}

void ValidateConfig(const MemoryConfig& config) {
  if (config.block_size < 1) {
    Refuse(fmt::format("block_size is {}; allowed: at least 1", config.block_size));
  }
  if (config.utilization && !(*config.utilization > 0 && *config.utilization <= 1)) {
    Refuse(fmt::format("utilization is {}; allowed: above 0, at most 1", *config.utilization));
  }
  if (config.blocks_override &&
      (*config.blocks_override < 1 || *config.blocks_override > kKvBlocksMax)) {
    Refuse(fmt::format("blocks_override is {}; allowed: 1 to {}", *config.blocks_override,
                       kKvBlocksMax));
  }
  if (config.blocks_override && config.kv_bytes_override) {
    Refuse("kv_bytes_override has no effect beside blocks_override; allowed: one of the two");
  }
  if (config.max_cache_tokens && !TakesCacheTokens(config.rule)) {
    Refuse(
        fmt::format("max_cache_tokens has no effect with the rule {}; allowed with: trtllm, "
                    "sglang, orca",
                    Name(config.rule)));
  }
  if (config.rule == MemoryRule::kOrca && !config.max_cache_tokens && !config.blocks_override) {
    Refuse("the rule orca needs max_cache_tokens, its number of token slots");
  }
  if (config.max_cache_tokens && *config.max_cache_tokens < config.block_size) {
    Refuse(fmt::format("max_cache_tokens is {}; allowed: at least one block of {}",
                       *config.max_cache_tokens, config.block_size));
  }
  if (config.max_step_tokens < 1 || config.max_sequences < 1 || config.swap_bytes < 0 ||
      config.non_framework_bytes < 0 || config.activation_bytes.value_or(0) < 0 ||
      config.kv_bytes_override.value_or(1) < 1 || config.max_model_length.value_or(1) < 1) {
    Refuse(
        "max_step_tokens, max_sequences, max_model_length and kv_bytes_override must be at "
        "least 1, other byte counts at least 0");
  }
}

// Sets requested_bytes and kv_bytes by the rule, before any limit on the number of tokens.
// Fractions of bytes are rounded as the systems do: up by vLLM V1, down by all other rules.
void ApplyRule(const MemoryConfig& config, double utilization, KvCapacity& c) {
  const auto total = static_cast<double>(c.total_bytes);
  const std::int64_t resident = c.weight_bytes + c.non_framework_bytes;
  const std::int64_t peak = resident + c.activation_bytes;
  const auto share = static_cast<std::int64_t>(std::floor(total * utilization));
  c.requested_bytes = share;
  switch (config.rule) {
    case MemoryRule::kVllmV1:
      c.requested_bytes = static_cast<std::int64_t>(std::ceil(total * utilization));
      c.kv_bytes = c.requested_bytes - peak;
      break;
    case MemoryRule::kVllmV0:
    case MemoryRule::kSarathi:
      c.kv_bytes = share - peak;
      break;
    case MemoryRule::kVidur:
      c.kv_bytes = share - c.weight_bytes;
      break;
    case MemoryRule::kMii:
      c.kv_bytes = share - resident - static_cast<std::int64_t>(kMiiReserveBytes);
      break;
    case MemoryRule::kTgi: {
      c.kv_bytes = share - peak;
      if (c.block_bytes == 0) break;  // a stage without cached layers
      const std::int64_t dummy_blocks =
          (config.max_step_tokens + config.block_size - 1) / config.block_size;
      const std::int64_t dummy = dummy_blocks * c.block_bytes;
      const auto left = static_cast<double>(share - peak - dummy) * kTgiWiggleRoom;
      c.kv_bytes = left < 0
                       ? static_cast<std::int64_t>(left)
                       : static_cast<std::int64_t>(left) / c.block_bytes * c.block_bytes + dummy;
      break;
    }
    case MemoryRule::kTrtLlm:
      c.kv_bytes = static_cast<std::int64_t>(
          std::floor(static_cast<double>(c.total_bytes - peak) * utilization));
      break;
    case MemoryRule::kSglang:
      c.kv_bytes = share - resident;
      break;
    case MemoryRule::kOrca:
      c.kv_bytes = std::min(share - peak,
                            config.max_cache_tokens.value_or(0) / c.block_size * c.block_bytes);
      break;
    case MemoryRule::kShip:
      c.kv_bytes = share - resident;
      break;
  }
}

bool ChecksLongestRequest(MemoryRule rule) {
  return rule == MemoryRule::kVllmV1 || rule == MemoryRule::kVllmV0 || rule == MemoryRule::kSarathi;
}

std::string Calculation(const KvCapacity& c) {
  return fmt::format(
      "requested {} of {}, weights {}, activations {}, other {}, left for the KV cache {}, one "
      "block "
      "of {} tokens {} bytes",
      Gigabytes(c.requested_bytes), Gigabytes(c.total_bytes), Gigabytes(c.weight_bytes),
      Gigabytes(c.activation_bytes), Gigabytes(c.non_framework_bytes), Gigabytes(c.kv_bytes),
      c.block_size, c.block_bytes);
}

void RequireFewEnough(const ModelSpec& model, std::int64_t blocks, const char* where) {
  if (blocks <= kKvBlocksMax) return;
  Refuse(fmt::format("{}: {} blocks{}, must be up to {}", model.name, blocks, where, kKvBlocksMax));
}

// Whether the pools of layers with and without windows have equally many bytes.
bool HasEqualPools(const MemoryConfig& config) {
  return config.window_pool_ratio == PolicyTraits::kEqualWindowPool;
}

// Bytes that the blocks and the pages of the window pool share. SGLang limits its cache by the
// bytes of max_cache_tokens tokens of all layers, whole pages, and divides them between both pools
// afterwards: with fewer tokens of windows, the other layers get more than the limit.
// Source: --max-total-tokens in SGLang's ModelRunnerKVCacheMixin.init_memory.
std::int64_t PooledBytes(const MemoryConfig& config, const KvCapacity& c) {
  if (config.rule != MemoryRule::kSglang || !config.max_cache_tokens) return c.kv_bytes;
  const std::int64_t pages = *config.max_cache_tokens / c.block_size;
  return std::min(c.kv_bytes, pages * (c.block_bytes + c.window_block_bytes));
}

std::int32_t CountBlocks(const ModelSpec& model, const MemoryConfig& config, const KvCapacity& c) {
  if (config.blocks_override) return *config.blocks_override;
  if (c.block_bytes == 0) return kKvBlocksMax;  // a stage without layers
  const std::int64_t bytes = PooledBytes(config, c);
  std::int64_t blocks = 0;
  if (bytes > 0 && c.window_block_bytes == 0) {
    blocks = bytes / c.block_bytes;
  } else if (bytes > 0 && HasEqualPools(config)) {
    blocks = bytes / 2 / c.block_bytes;
  } else if (bytes > 0) {
    const double page_bytes = *config.window_pool_ratio * static_cast<double>(c.window_block_bytes);
    blocks = static_cast<std::int64_t>(static_cast<double>(bytes) /
                                       (static_cast<double>(c.block_bytes) + page_bytes));
  }
  if (config.rule == MemoryRule::kTrtLlm && config.max_cache_tokens) {
    blocks = std::min(blocks, *config.max_cache_tokens / c.block_size);
  }
  if (config.rule == MemoryRule::kOrca && blocks < *config.max_cache_tokens / c.block_size) {
    Refuse(fmt::format("{}: {} token slots do not fit: {}", model.name, *config.max_cache_tokens,
                       Calculation(c)));
  }
  const std::int64_t kept = config.rule == MemoryRule::kVllmV1 ? 1 : 0;
  if (blocks <= kept) Refuse(fmt::format("{} does not fit: {}", model.name, Calculation(c)));
  RequireFewEnough(model, blocks, "");
  return static_cast<std::int32_t>(blocks);
}

// Whether some layers of a model of several kinds keep all tokens.
bool KeepsAllTokensInPart(const ModelSpec& model) {
  if (!ListsLayers(model)) return false;
  return std::ranges::any_of(OrderedLayers(model),
                             [](const LayerGroup& group) { return KeepsAllTokens(group.layer); });
}

// Where layers with windows or chunks keep their tokens, beside layers that keep all.
enum class WindowPlace : std::uint8_t {
  kAside,   // room for full ones of max_sequences requests
  kBlocks,  // all tokens, in the blocks of the others
  kPool,    // a pool of their own
};

// vLLM V1 and SGLang give back what lies behind a window, and so do the dataflow machines. The
// other systems compute windows over caches that keep all tokens: TensorRT-LLM where
// max_attention_window is not given, as it is not by default.
WindowPlace PlaceOfWindows(const ModelSpec& model, const MemoryConfig& config) {
  if (!KeepsAllTokensInPart(model)) return WindowPlace::kAside;
  switch (config.rule) {
    case MemoryRule::kVllmV1:
    case MemoryRule::kShip:
      return WindowPlace::kAside;
    case MemoryRule::kSglang:
      if (!config.window_pool_ratio || WindowBesideAllTokens(model) == 0) {
        return WindowPlace::kAside;
      }
      return *config.window_pool_ratio > 0 ? WindowPlace::kPool : WindowPlace::kBlocks;
    case MemoryRule::kTrtLlm:
      return HasEqualPools(config) && WindowBesideAllTokens(model) > 0 ? WindowPlace::kPool
                                                                       : WindowPlace::kBlocks;
    default:
      return WindowPlace::kBlocks;
  }
}

// Cached bytes of the layers with windows, and in blocks of those with chunks: of a token, and of
// full windows and chunks.
KvBytes WindowBytes(const ModelSpec& model, const Parallelism& parallelism, std::int32_t stage,
                    WindowPlace place) {
  KvBytes bytes;
  if (place == WindowPlace::kAside) return bytes;
  for (const LayerGroup& kind : StageLayerKinds(model, parallelism, stage)) {
    const bool chunked = kind.layer.chunk > 0 && place == WindowPlace::kBlocks;
    if (kind.layer.sliding_window == 0 && !chunked) continue;
    bytes.per_token += kind.layers * KvBytesPerTokenAndLayer(model, kind.layer, parallelism);
    bytes.per_sequence += kind.layers * FixedKvBytes(model, kind.layer, parallelism);
  }
  return bytes;
}

// The pages of the window pool. Throws InputError if no request could be admitted.
std::int32_t CountWindowBlocks(const ModelSpec& model, const MemoryConfig& config,
                               const KvCapacity& c) {
  if (c.window_block_bytes == 0) return 0;
  std::int64_t blocks = 0;
  if (c.block_bytes == 0) {  // a stage of windows alone
    blocks = std::max<std::int64_t>(0, c.kv_bytes) / c.window_block_bytes;
  } else if (HasEqualPools(config)) {
    const std::int64_t bytes = config.blocks_override ? c.blocks * c.block_bytes : c.kv_bytes / 2;
    blocks = bytes / c.window_block_bytes;
  } else {
    const double tokens = *config.window_pool_ratio * static_cast<double>(c.tokens());
    blocks = static_cast<std::int64_t>(tokens) / c.block_size;
  }
  const std::int32_t window = WindowBesideAllTokens(model);
  if (blocks * c.block_size <= window + c.block_size) {
    Refuse(
        fmt::format("{}: a window pool of {} tokens holds no request; allowed: more than the "
                    "window of {} and a block, by a larger cache{}: {}",
                    model.name, blocks * c.block_size, window,
                    HasEqualPools(config) ? "" : " or swa_full_tokens_ratio", Calculation(c)));
  }
  RequireFewEnough(model, blocks, " of windows");
  return static_cast<std::int32_t>(blocks);
}

// `windows`: of the layers that need no room aside.
void SetSequencesAside(const ModelSpec& model, const Parallelism& parallelism,
                       const MemoryConfig& config, const KvBytes& windows, KvCapacity& c) {
  if (!ListsLayers(model)) return;
  c.sequence_bytes = CachedBytes(model, parallelism, c.stage).per_sequence - windows.per_sequence;
  const auto room = static_cast<std::int64_t>(
      kStateShareMost * static_cast<double>(std::max<std::int64_t>(0, c.kv_bytes)));
  // SGLang's tree keeps states of prefixes, too: they get all that states may take.
  const bool keeps_states = config.rule == MemoryRule::kSglang && config.caches_prefixes;
  c.sequences_bytes = keeps_states ? room : std::min(config.max_sequences * c.sequence_bytes, room);
  c.kv_bytes -= c.sequences_bytes;
}

// Lets the blocks be those of the groups that vLLM makes of the layers. Equal layers that keep all
// tokens stay one table of equal blocks, of the size that their attention needs.
void SetGroups(const ModelSpec& model, const Parallelism& parallelism, const MemoryConfig& config,
               KvCapacity& c) {
  const KvGrouping grouping = GroupAsVllm(model, parallelism, c.stage,
                                          {.block_size = config.block_size,
                                           .prefix_caching = config.caches_prefixes,
                                           .max_model_length = c.max_model_length});
  const KvGroups& groups = grouping.groups;
  c.block_bytes = grouping.block_bytes;
  c.block_size = groups.hash_block;
  const GroupLimits limits{.tokens_in_flight = config.max_step_tokens,
                           .context_tokens = c.max_model_length};
  c.blocks_per_request = MostBlocks(groups, limits);
  if (NeedGroupTables(groups)) c.groups = groups;
}

// Cached bytes of a token that the devices of a stage have to keep room for, over its bytes: the
// device with the most heads fills up first. 1 = all have equal shares.
double StageUnevenness(const ModelSpec& model, const Parallelism& parallelism, std::int32_t stage) {
  const std::int64_t devices = parallelism.StageDevices(stage);
  double worst = 1;
  for (const LayerGroup& kind : StageLayerKinds(model, parallelism, stage)) {
    if (kind.layer.query_heads == 0) continue;
    const std::int64_t heads = kind.layer.latent ? 1 : kind.layer.kv_heads;
    worst = std::max(worst, HeadsUnevenness(parallelism.kv_split, heads, devices));
  }
  return worst;
}

// Sets the bytes of a stage of a dataflow machine, of all its devices, and returns how it is split
// as if it were one device.
Parallelism SetShip(const ModelSpec& model, const HardwareSpec& hardware,
                    const Parallelism& parallelism, std::int32_t stage, const MemoryConfig& config,
                    KvCapacity& c) {
  Parallelism whole = parallelism;
  whole.tensor = 1;
  const std::int64_t devices = parallelism.StageDevices(stage);
  const std::int64_t reserve = hardware.dataflow ? hardware.dataflow->reserve_bytes : 0;
  c.total_bytes = devices * hardware.memory_bytes;
  c.weight_bytes =
      LayerBytesPerRank(model, whole, stage) +
      static_cast<std::int64_t>(static_cast<double>(EndParameters(model, whole, stage)) *
                                BytesPerWeight(model.weight_dtype));
  c.activation_bytes = 0;
  c.non_framework_bytes = devices * reserve;
  const double token = StageUnevenness(model, parallelism, stage) *
                       static_cast<double>(KvBytesPerToken(model, whole, stage));
  c.block_bytes = static_cast<std::int64_t>(config.block_size * token);
  const std::int64_t left = c.total_bytes - c.non_framework_bytes - c.weight_bytes;
  if (left < 0) {
    Refuse(
        fmt::format("{}: stage {} needs {} for its weights, but its {} devices have {}; allowed: "
                    "more devices or fewer layers",
                    model.name, stage, Gigabytes(c.weight_bytes), devices,
                    Gigabytes(c.total_bytes - c.non_framework_bytes)));
  }
  return whole;
}

// Sets the bytes of one rank of a stage.
void SetRank(const ModelSpec& model, const HardwareSpec& hardware, const Parallelism& parallelism,
             std::int32_t stage, const MemoryConfig& config, const ModelSpec* draft,
             KvCapacity& c) {
  c.total_bytes = hardware.memory_bytes;
  c.weight_bytes = WeightBytesPerRank(model, parallelism, stage);
  c.activation_bytes =
      config.activation_bytes.value_or(ActivationBytes(model, parallelism, stage, config));
  c.non_framework_bytes = config.non_framework_bytes;
  c.block_bytes = config.block_size * KvBytesPerToken(model, parallelism, stage);
  if (draft != nullptr && stage == parallelism.pipeline - 1) {
    const Parallelism ranks{.tensor = parallelism.tensor};
    c.weight_bytes += WeightBytesPerRank(*draft, ranks, 0);
    c.block_bytes += config.block_size * KvBytesPerToken(*draft, ranks, 0);
  }
}

KvCapacity PlanStage(const ModelSpec& model, const HardwareSpec& hardware,
                     const Parallelism& parallelism, std::int32_t stage, const MemoryConfig& config,
                     const ModelSpec* draft) {
  KvCapacity c;
  c.rule = config.rule;
  c.stage = stage;
  c.block_size = config.block_size;
  Parallelism split = parallelism;
  if (config.rule == MemoryRule::kShip) {
    split = SetShip(model, hardware, parallelism, stage, config, c);
  } else {
    SetRank(model, hardware, parallelism, stage, config, draft, c);
  }
  const WindowPlace place = PlaceOfWindows(model, config);
  const KvBytes windows = WindowBytes(model, split, stage, place);
  (place == WindowPlace::kPool ? c.window_block_bytes : c.block_bytes) +=
      config.block_size * windows.per_token;
  c.max_model_length = config.max_model_length.value_or(model.max_position);
  c.blocks_per_request = (std::int64_t{c.max_model_length} + c.block_size - 1) / c.block_size;
  if (config.kv_groups && config.rule == MemoryRule::kVllmV1 && draft == nullptr) {
    SetGroups(model, parallelism, config, c);
  }
  c.overridden = config.blocks_override || config.kv_bytes_override;
  ApplyRule(config, config.utilization.value_or(RowOf(config.rule).utilization), c);
  if (config.kv_bytes_override) c.kv_bytes = *config.kv_bytes_override;
  if (!c.groups) SetSequencesAside(model, split, config, windows, c);
  c.blocks = CountBlocks(model, config, c);
  c.window_blocks = CountWindowBlocks(model, config, c);
  c.usable_blocks = c.blocks - (config.rule == MemoryRule::kVllmV1 ? 1 : 0);
  if (SwapsToHost(config.rule)) {
    const std::int64_t host_blocks =
        c.block_bytes == 0 ? kKvBlocksMax : config.swap_bytes / c.block_bytes;
    RequireFewEnough(model, host_blocks, " on the host (swap_bytes)");
    c.host_blocks = static_cast<std::int32_t>(host_blocks);
  }
  return c;
}

// Numbers of a token on one rank: queries, keys, values and the attention's output.
std::int64_t AttentionWidth(const LayerSpec& layer, const Parallelism& parallelism) {
  if (layer.recurrent) {
    const RecurrentWidths widths = WidthsOf(*layer.recurrent, parallelism);
    return 2 * widths.keys + 3 * widths.values;
  }
  const std::int64_t query = std::int64_t{layer.query_heads} / parallelism.tensor * layer.head_dim;
  const std::int64_t kv = std::int64_t{KvHeadsPerRank(layer, parallelism)} * layer.head_dim;
  return 2 * query + 2 * kv;
}

// Numbers of a token in the MLP of one rank. A mixture computes experts_per_token rows for each
// token.
std::int64_t MlpWidth(const LayerSpec& layer, const Parallelism& parallelism) {
  const std::int64_t width = layer.moe.experts == 0 ? layer.intermediate
                                                    : std::int64_t{layer.moe.experts_per_token} *
                                                          layer.moe.expert_intermediate;
  return (layer.gated_mlp ? 3 : 2) * (width / parallelism.tensor);
}

}  // namespace

std::int32_t WindowBesideAllTokens(const ModelSpec& model) {
  if (!KeepsAllTokensInPart(model)) return 0;
  std::int32_t window = 0;
  for (const LayerGroup& group : OrderedLayers(model)) {
    window = std::max(window, group.layer.sliding_window);
  }
  return window;
}

bool LeavesRoomForActivations(MemoryRule rule) {
  return rule != MemoryRule::kVidur && rule != MemoryRule::kMii && rule != MemoryRule::kSglang;
}

std::string_view Name(MemoryRule rule) { return kRules[static_cast<std::size_t>(rule)].name; }

std::optional<MemoryRule> MemoryRuleNamed(std::string_view name) {
  for (const Rule& entry : kRules) {
    if (entry.name == name) return entry.rule;
  }
  return std::nullopt;
}

std::int64_t KvCapacity::tokens() const {
  if (!groups) return std::int64_t{blocks} * block_size;
  return static_cast<std::int64_t>(max_concurrency() * max_model_length);
}

double KvCapacity::max_concurrency() const {
  return static_cast<double>(blocks) / static_cast<double>(blocks_per_request);
}

std::int64_t ActivationBytes(const ModelSpec& model, const Parallelism& parallelism,
                             std::int32_t stage, const MemoryConfig& config) {
  std::int64_t widest = 0;
  for (const LayerGroup& kind : StageLayerKinds(model, parallelism, stage)) {
    widest = std::max(
        {widest, AttentionWidth(kind.layer, parallelism), MlpWidth(kind.layer, parallelism)});
  }
  const std::int64_t live = 2 * std::int64_t{model.hidden} + widest;
  const std::int64_t body = config.max_step_tokens * live * ActivationByteSize(model);
  const bool is_last = stage == parallelism.pipeline - 1;
  constexpr std::int64_t kLogitBytes = 4;
  constexpr std::int64_t kLogitCopies = 2;
  const std::int64_t logits =
      is_last ? config.max_sequences * model.vocab * kLogitBytes * kLogitCopies : 0;
  return body + logits;
}

KvCapacity PlanKvCapacity(const ModelSpec& model, const HardwareSpec& hardware,
                          const Parallelism& parallelism, const MemoryConfig& config,
                          const ModelSpec* draft) {
  Validate(model, parallelism);
  ValidateConfig(config);
  if (config.max_cache_tokens && HasEqualPools(config)) {
    Refuse(
        "max_cache_tokens has no effect with policy.trtllm.max_attention_window; allowed: one of "
        "the two");
  }
  const bool is_ship = config.rule == MemoryRule::kShip;
  if (!parallelism.is_uniform() && !is_ship) {
    Refuse(
        fmt::format("the rule {} knows equal stages whose devices form a ring and divide heads; "
                    "allowed with other link_topology, kv_split or stages: ship",
                    Name(config.rule)));
  }
  if (is_ship && draft != nullptr) {
    Refuse("the rule ship has no room for a draft model; allowed: vllm_v1");
  }
  KvCapacity least = PlanStage(model, hardware, parallelism, 0, config, draft);
  std::int32_t host_blocks = least.host_blocks;
  std::int32_t pages = least.window_blocks;  // 0: no stage has a window pool so far
  for (std::int32_t stage = 1; stage < parallelism.pipeline; ++stage) {
    const KvCapacity c = PlanStage(model, hardware, parallelism, stage, config, draft);
    host_blocks = std::min(host_blocks, c.host_blocks);
    if (pages == 0 || (c.window_blocks > 0 && c.window_blocks < pages)) pages = c.window_blocks;
    if (c.blocks < least.blocks) least = c;
  }
  least.host_blocks = host_blocks;
  least.window_blocks = pages;
  if (ChecksLongestRequest(config.rule) && least.usable_blocks < least.blocks_per_request) {
    const char* const null_block =
        least.usable_blocks < least.blocks ? ", one of which is vLLM's null block" : "";
    Refuse(fmt::format(
        "{}: a request of max_model_length {} tokens does not fit into {} blocks{}: {}", model.name,
        least.max_model_length, least.blocks, null_block, Calculation(least)));
  }
  return least;
}

std::string Describe(const KvCapacity& c) {
  return fmt::format(
      "rule           {}{}\n"
      "device         {}\n"
      "requested      {}\n"
      "weights        {} (stage {})\n"
      "activations    {}\n"
      "other          {}\n"
      "KV cache       {}{}\n"
      "blocks         {} of {} tokens, {} bytes each ({} usable, {} on the host)\n"
      "{}"
      "tokens         {}\n"
      "concurrency    {:.1f} requests of {} tokens\n",
      Name(c.rule), c.overridden ? " (overridden)" : "", Gigabytes(c.total_bytes),
      Gigabytes(c.requested_bytes), Gigabytes(c.weight_bytes), c.stage,
      Gigabytes(c.activation_bytes), Gigabytes(c.non_framework_bytes), Gigabytes(c.kv_bytes),
      c.sequences_bytes == 0
          ? ""
          : fmt::format(", and {} of windows and states", Gigabytes(c.sequences_bytes)),
      c.blocks, c.block_size, c.block_bytes, c.usable_blocks, c.host_blocks,
      c.window_blocks == 0 ? ""
                           : fmt::format("window pool    {} pages of {} tokens, {} bytes each\n",
                                         c.window_blocks, c.block_size, c.window_block_bytes),
      c.tokens(), c.max_concurrency(), c.max_model_length);
}

}  // namespace twin::sim
