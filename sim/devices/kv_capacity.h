// KV capacity: how many KV blocks a serving system allocates on a given device.
//
// Idea: the number of blocks decides how many requests run at once, and so throughput and
// preemptions. Serving systems compute it at start-up: they take a share of the device's memory,
// subtract weights and the activations that a profiling forward pass measured, and divide the rest
// by the size of a block. They differ in the details, each of which moves the result by some
// percent. MemoryRule has one rule per system, taken from its source code: vLLM V1
// (Worker.determine_available_memory), vLLM V0 (Worker.determine_num_available_blocks) and its fork
// Sarathi-Serve, Vidur (MemoryPlanner), DeepSpeed-MII, TGI (warmup of FlashCausalLM), TensorRT-LLM
// (free_gpu_memory_fraction), SGLang (mem_fraction_static), Orca, whose operator sets the number of
// token slots, and `ship` for dataflow machines (core/dataflow_spec.h), whose stages hold weights
// and cache in on-chip memory.
//
// Easy to get wrong: the share is of the total memory, but TensorRT-LLM's is of what the peak
// leaves; vLLM V1 rounds it up and all other rules down; vLLM V1 keeps block 0 as a null block;
// TGI counts the blocks of its warm-up batch as both used and available; activations of the
// profiling forward depend on the largest step, so a larger token budget means fewer blocks; with
// pipeline parallelism the stage with the fewest blocks decides; KV heads are replicated when there
// are more ranks than heads. For a system whose numbers were measured, give blocks_override or
// kv_bytes_override.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/hardware_spec.h"
#include "core/kv_groups.h"
#include "core/model_spec.h"

namespace twin::sim {

// `total` is the device's memory. Of one rank, `peak` = weights + activations + non-framework
// memory, and `resident` = weights + non-framework memory. The rank with the fewest blocks decides.
enum class MemoryRule : std::uint8_t {
  kVllmV1,   // ceil(total x utilization 0.9) - peak; block 0 is kept as the null block
  kVllmV0,   // floor(total x utilization 0.9) - peak; host blocks from swap_bytes
  kSarathi,  // as vLLM V0, utilization 0.8
  kVidur,    // total x utilization 0.9 - weights; ignores activations and other memory
  kMii,      // total - resident - 1e9 bytes
  kTgi,      // 0.9 x (total x utilization 1.0 - peak - dummy batch), plus the dummy batch's blocks
  kTrtLlm,   // utilization 0.9 x (total - peak), or max_cache_tokens if fewer
  kSglang,   // total x utilization 0.88 - resident; activations use the rest of the device
  kOrca,     // max_cache_tokens token slots given by the operator, whole blocks of them
  // Sums of a stage's devices: total - reserve - weights, embedding and head in the weights'
  // format. Divided by heads, the device with the most heads decides.
  kShip,
};

std::string_view Name(MemoryRule rule);

// Whether the rule keeps memory free for the activations of the largest step.
bool LeavesRoomForActivations(MemoryRule rule);

// nullopt if no rule has that name.
std::optional<MemoryRule> MemoryRuleNamed(std::string_view name);

struct MemoryConfig {
  MemoryRule rule = MemoryRule::kVllmV1;
  // The rule's default if absent.
  std::optional<double> utilization = std::nullopt;
  std::int32_t block_size = 16;  // tokens

  // The largest step, which the profiling forward pass runs.
  std::int64_t max_step_tokens = 8192;
  std::int64_t max_sequences = 256;  // rows of logits
  // The model's max_position if absent.
  std::optional<std::int32_t> max_model_length = std::nullopt;

  // Measured peak activation memory of a rank; if absent, the estimate of ActivationBytes().
  std::optional<std::int64_t> activation_bytes = std::nullopt;
  // CUDA context, communication buffers, graphs, workspaces.
  std::int64_t non_framework_bytes = 1'000'000'000;

  // kVllmV0, kSarathi: host memory for swapping.
  std::int64_t swap_bytes = 4LL << 30;
  // kTrtLlm, kSglang: upper limit of tokens in the cache; kOrca: number of token slots.
  std::optional<std::int64_t> max_cache_tokens = std::nullopt;

  // Layers that keep different tokens have block tables of their own (kv_grouping.h): with the rule
  // kVllmV1 alone. false: blocks hold the layers that keep all tokens, and room is set aside for
  // the others (kStateShareMost).
  bool kv_groups = false;
  bool caches_prefixes = false;  // PolicyTraits::caches_prefixes, for kv_groups
  // PolicyTraits::window_pool_ratio; with the rules kSglang and kTrtLlm alone.
  std::optional<double> window_pool_ratio = std::nullopt;

  // Known values of a real server: number of blocks, or bytes of the cache per rank.
  std::optional<std::int32_t> blocks_override = std::nullopt;
  std::optional<std::int64_t> kv_bytes_override = std::nullopt;

  bool operator==(const MemoryConfig&) const = default;
};

// Every number of the calculation, of the rank with the fewest blocks. Bytes are of one device;
// with the rule kShip, of the devices of a stage together.
struct KvCapacity {
  MemoryRule rule{};
  std::int32_t stage = 0;            // pipeline stage of that rank
  std::int64_t total_bytes = 0;      // the device's memory
  std::int64_t requested_bytes = 0;  // what the server may use by the rule
  std::int64_t weight_bytes = 0;
  std::int64_t activation_bytes = 0;
  std::int64_t non_framework_bytes = 0;
  std::int64_t kv_bytes = 0;  // left for the blocks of the cache
  // Full windows and states of layers that do not keep all tokens, beside the blocks: of one
  // sequence, and of all that have room.
  std::int64_t sequence_bytes = 0;
  std::int64_t sequences_bytes = 0;
  std::int64_t block_bytes = 0;  // of one block
  // A pool of layers with windows beside the blocks: bytes of one of its pages, which are as large
  // as blocks, and their number; 0 = there is none.
  std::int64_t window_block_bytes = 0;
  std::int32_t window_blocks = 0;
  std::int32_t block_size = 0;  // tokens
  std::int32_t blocks = 0;
  std::int32_t usable_blocks = 0;     // without a null block
  std::int32_t host_blocks = 0;       // swap space
  std::int32_t max_model_length = 0;  // tokens
  // With MemoryConfig::kv_groups, of models whose layers keep different tokens: the groups, whose
  // blocks these are. `block_size` is then that of a prefix key.
  std::optional<KvGroups> groups;
  std::int64_t blocks_per_request = 0;  // of max_model_length tokens
  bool overridden = false;              // blocks or bytes were given, not calculated

  // Layers that keep all tokens hold so many; with groups, if requests of max_model_length fill
  // them.
  [[nodiscard]] std::int64_t tokens() const;
  // Requests of max_model_length tokens that fit at the same time, as vLLM prints it: it counts the
  // null block.
  [[nodiscard]] double max_concurrency() const;
  bool operator==(const KvCapacity&) const = default;
};

// Estimated peak activations of a rank of the stage, in bytes, for a step of max_step_tokens:
// residual, normed input and the widest of (QKV, MLP input and its activation), in activation
// bytes, plus fp32 logits with one sorted copy for max_sequences rows on the last stage.
std::int64_t ActivationBytes(const ModelSpec& model, const Parallelism& parallelism,
                             std::int32_t stage, const MemoryConfig& config);

// The window of layers that have one, the largest, in a model some of whose layers keep all tokens;
// 0 = there is no such model of groups of layers.
std::int32_t WindowBesideAllTokens(const ModelSpec& model);

// Windows and states of models whose layers differ: room for max_sequences of them is set aside, up
// to kStateShareMost of what is left beside the weights. Servers share this memory with the blocks.
// SGLang's windows have a pool of window_pool_ratio x the tokens of the blocks instead, so that
// both pools together take what is left (SGLang 0.5.23, pool configurator of hybrid models).
// TensorRT-LLM divides it equally between both pools if max_attention_window is given. Without it,
// and with all rules but kVllmV1, kSglang and kShip, windows and chunks keep all tokens in blocks.
constexpr double kStateShareMost = 0.9 / 1.9;

// Throws InputError (usage) with the numbers if the model does not fit, no block is left, a request
// of the longest length would not fit (kVllmV1, kVllmV0, kSarathi), or a setting is out of range.
// `draft`: a draft model, whose weights and KV cache lie on the last stage beside the model's; its
// activations are smaller than the model's and follow them. nullptr: there is none.
KvCapacity PlanKvCapacity(const ModelSpec& model, const HardwareSpec& hardware,
                          const Parallelism& parallelism, const MemoryConfig& config,
                          const ModelSpec* draft = nullptr);

// The calculation as text of several lines, in GB (1e9 bytes) and blocks.
std::string Describe(const KvCapacity& capacity);

}  // namespace twin::sim
