// How many KV-cache blocks a system has: the rule by which each one turns device memory into
// blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/hardware_spec.h"
#include "core/model_spec.h"

namespace twin::sim {

// `total` is the device's memory, `peak` = weights + activations + non-framework memory of a rank,
// `resident` = weights + non-framework; each rank of each stage counts, and the fewest blocks win.
enum class MemoryRule : std::uint8_t {
  kVllmV1,   // ceil(total x utilization 0.9) - peak; block 0 is kept as the null block
  kVllmV0,   // floor(total x utilization 0.9) - peak; host blocks from swap_bytes
  kSarathi,  // as vLLM V0, utilization 0.8
  kVidur,    // total x utilization 0.9 - weights (a planner: nothing else counts)
  kMii,      // total - resident - 1e9 bytes
  kTgi,      // 0.9 x (total x utilization 1.0 - peak - dummy batch), plus the dummy batch's blocks
  kTrtLlm,   // utilization 0.9 x (total - peak), or max_cache_tokens if fewer
  kSglang,   // total x utilization 0.88 - resident; activations live in what is left
  kOrca,     // max_cache_tokens token slots given by the operator, whole blocks of them
};

std::string_view Name(MemoryRule rule);

// nullopt if no rule has that name.
std::optional<MemoryRule> MemoryRuleNamed(std::string_view name);

struct MemoryConfig {
  MemoryRule rule = MemoryRule::kVllmV1;
  // The rule's default if absent.
  std::optional<double> utilization = std::nullopt;
  std::int32_t block_size = 16;  // tokens

  // The largest step: what the profiling forward runs.
  std::int64_t max_step_tokens = 8192;
  std::int64_t max_sequences = 256;  // rows of logits
  // The model's max_position if absent.
  std::optional<std::int32_t> max_model_length = std::nullopt;

  // Measured peak activation memory of a rank; the estimate of ActivationBytes if absent.
  std::optional<std::int64_t> activation_bytes = std::nullopt;
  // CUDA context, communication buffers, graphs, workspaces.
  std::int64_t non_framework_bytes = 1'000'000'000;

  // kVllmV0, kSarathi: host memory for swapping.
  std::int64_t swap_bytes = 4LL << 30;
  // kTrtLlm: upper limit; kOrca: the slots.
  std::optional<std::int64_t> max_cache_tokens = std::nullopt;

  // The resolved values of a real server: a count of blocks, or the bytes for the cache per rank.
  std::optional<std::int32_t> blocks_override = std::nullopt;
  std::optional<std::int64_t> kv_bytes_override = std::nullopt;

  bool operator==(const MemoryConfig&) const = default;
};

// Every number of the calculation, for the rank that has the fewest blocks; bytes of one device.
struct KvCapacity {
  MemoryRule rule{};
  std::int32_t stage = 0;            // pipeline stage of that rank
  std::int64_t total_bytes = 0;      // the device's memory
  std::int64_t requested_bytes = 0;  // what the rule lets the server use
  std::int64_t weight_bytes = 0;
  std::int64_t activation_bytes = 0;
  std::int64_t non_framework_bytes = 0;
  std::int64_t kv_bytes = 0;     // left for the cache
  std::int64_t block_bytes = 0;  // of one block
  std::int32_t block_size = 0;   // tokens
  std::int32_t blocks = 0;
  std::int32_t usable_blocks = 0;     // without a null block
  std::int32_t host_blocks = 0;       // swap space
  std::int32_t max_model_length = 0;  // tokens
  bool overridden = false;            // blocks or bytes were given, not calculated

  [[nodiscard]] std::int64_t tokens() const { return std::int64_t{blocks} * block_size; }
  // Requests of the longest length that fit at once, as vLLM prints it.
  [[nodiscard]] double max_concurrency() const;
  bool operator==(const KvCapacity&) const = default;
};

// Estimated peak activations of a rank of the stage, in bytes, for a step of max_step_tokens:
// residual, normed input and the widest of (QKV, MLP input and its activation), in activation
// bytes, plus fp32 logits with one sorted copy for max_sequences rows on the last stage.
std::int64_t ActivationBytes(const ModelSpec& model, const Parallelism& parallelism,
                             std::int32_t stage, const MemoryConfig& config);

// Throws InputError (usage) with the numbers if the model does not fit, no block is left, a request
// of the longest length would not fit (kVllmV1, kVllmV0, kSarathi), or a setting is out of range.
KvCapacity PlanKvCapacity(const ModelSpec& model, const HardwareSpec& hardware,
                          const Parallelism& parallelism, const MemoryConfig& config);

// The calculation as lines for people, in GB (1e9 bytes) and blocks.
std::string Describe(const KvCapacity& capacity);

}  // namespace twin::sim
