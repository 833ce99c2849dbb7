// Measurements of a device's attention and of its small, memory-bound kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "sim/devices/operations/attention_kernel.h"
#include "sim/devices/operations/kernel_library.h"
#include "sim/devices/operations/memory_bound_profile.h"

namespace twin::sim {

// Causal attention of prompts, or attention of one new token per request.
enum class AttentionKind : std::uint8_t { kContext, kGeneration };

// Measured batch sizes and lengths (tokens of a prompt, or of the context of a decode), ascending.
struct AttentionGrid {
  std::vector<std::uint32_t> batches;
  std::vector<std::uint32_t> lengths;

  bool operator==(const AttentionGrid&) const = default;
};

// One kernel of one library: its closed form, and how far measurements are from it.
struct AttentionTable {
  AttentionKind kind{};
  KernelLibrary library{};
  DType compute_dtype = DType::kBf16;
  DType kv_dtype = DType::kBf16;
  std::int32_t head_dim = 0;
  std::int32_t window = 0;  // keys that a query sees; 0 = all
  // The one that `kind` says.
  ContextKernel context;
  GenerationKernel generation;

  std::uint32_t grid = 0;  // of the profile's grids
  // Another table without a base, whose correction of the same heads comes first; the rows hold
  // what is left. -1 = none.
  std::int32_t base = -1;
  // One row per measured pair of query and KV heads; attention_table.h has the format.
  std::vector<std::string> rows;

  // How far, in powers of 2, other groups (query heads per KV head) and other batch sizes with the
  // same number of heads in all reach; not of prompts of other heads (prompt_kriging.h).
  double group_scale = 0.5;
  // Rows are near if requests x query heads are equal, not requests x KV heads: kernels without
  // packed heads.
  bool by_query_heads = false;
  double batch_scale = 0.5;
  // Standard deviation of the logarithm for heads that were not measured; of prompts at a usual
  // distance.
  double spread = 0.05;

  bool operator==(const AttentionTable&) const = default;
};

// Empty: the closed form of AttentionModel with the fractions of the data sheet.
struct AttentionProfile {
  // Decodes that are not split: time per key of the longest request above the mean, for keys of 512
  // bytes (both tensors). None: that of the kernels that libraries have for such a device.
  std::optional<double> straggler_us_per_key{};
  // Factor on decodes in one call with prompt chunks.
  double mixed_factor = 1.05;
  std::vector<AttentionGrid> grids{};
  std::vector<AttentionTable> tables{};
  MemoryBoundProfile memory_bound{};

  bool operator==(const AttentionProfile&) const = default;
};

// Throws InputError (usage) "tables[1]: ..." for the first malformed table.
void Validate(const AttentionProfile& profile);

}  // namespace twin::sim
