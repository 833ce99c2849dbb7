// How vLLM 0.33.0 groups the layers of a model for its KV cache, and what a block of them takes.
//
// Layers with equal needs form buckets, in the order in which they first occur. Pages (what a layer
// caches in one block) are made equally large: layers with smaller pages get longer blocks, or
// padding. Buckets are then cut into groups of equally many layers, so that a block of any group
// has equally many bytes.
//
// Source: vLLM 0.33.0, get_kv_cache_groups and the resolution of block sizes, decisions observed.
//
// Easy to get wrong:
// - A bucket of n layers makes ceil(n / g) groups, and layer i belongs to group i mod that number:
//   52 layers by 10 are groups of 9, 9, 9, 9, 8 and 8. g is the smallest bucket's size, but the
//   largest one's where that is below 1.5 times the smallest.
// - Models whose layers all keep all tokens have one group, whatever each layer caches.
// - The block of attention beside states is as long as a state is large: hundreds of tokens.
#pragma once

#include <cstdint>

#include "core/kv_groups.h"
#include "core/model_spec.h"

namespace twin::sim {

struct KvGroupingConfig {
  std::int32_t block_size = 16;       // tokens; of layers that keep all tokens, at least
  bool prefix_caching = true;         // states at multiples of the block size are kept
  std::int32_t max_model_length = 0;  // tokens; the block of a state without prefix caching
  // Without the hybrid manager, windows and chunks are kept like all tokens.
  bool hybrid = true;
};

struct KvGrouping {
  KvGroups groups;
  // Bytes of one block on one rank of the stage: a page of each layer of its largest group.
  std::int64_t block_bytes = 0;
};

// Throws InputError (usage) if pages cannot be made equal, or if states are asked for without the
// hybrid manager. REQUIRES: a valid model with at least one layer that caches something.
KvGrouping GroupAsVllm(const ModelSpec& model, const Parallelism& parallelism, std::int32_t stage,
                       const KvGroupingConfig& config);

}  // namespace twin::sim
