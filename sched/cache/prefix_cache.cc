#include "sched/cache/prefix_cache.h"

#include <algorithm>

#include "core/prefix_keys.h"

namespace twin {

std::span<const BlockKey> PrefixCache::Keys(const Sequence& sequence, std::int32_t tokens) {
  if (!enabled_) return {};
  const BlockKeys known(sequence.keys, keys_per_block_);
  const auto full = static_cast<std::size_t>(std::max(tokens, 0) / block_size_);
  const std::size_t blocks = std::min(full, known.size());
  if (keys_per_block_ == 1) return std::span(sequence.keys).first(blocks);
  keys_.clear();
  for (std::size_t i = 0; i < blocks; ++i) keys_.push_back(known[i]);
  return keys_;
}

}  // namespace twin
