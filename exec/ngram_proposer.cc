#include "exec/ngram_proposer.h"

#include <algorithm>
#include <cstddef>

namespace twin::exec {

std::span<const std::int32_t> ProposeByNgram(std::span<const std::int32_t> tokens,
                                             std::int32_t drafts_max, const NgramConfig& config) {
  for (std::int32_t n = config.lookup_max; n >= config.lookup_min; --n) {
    const auto size = static_cast<std::size_t>(n);
    if (tokens.size() <= size) continue;
    const std::span<const std::int32_t> latest = tokens.last(size);
    // An occurrence that begins earlier than the latest tokens themselves; the two may overlap.
    const std::span<const std::int32_t> before = tokens.first(tokens.size() - 1);
    const auto found = std::search(before.begin(), before.end(), latest.begin(), latest.end());
    if (found == before.end()) continue;
    const auto behind = static_cast<std::size_t>(found - before.begin()) + size;
    return tokens.subspan(behind,
                          std::min(static_cast<std::size_t>(drafts_max), tokens.size() - behind));
  }
  return {};
}

}  // namespace twin::exec
