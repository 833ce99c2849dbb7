// Drafts from a request's own text (prompt lookup: speculative decoding without a model).
#pragma once

#include <cstdint>
#include <span>

namespace twin::exec {

// The defaults are vLLM's.
struct NgramConfig {
  std::int32_t lookup_min = 5;  // fewest tokens that must occur again
  std::int32_t lookup_max = 5;  // number of tokens that is tried first

  bool operator==(const NgramConfig&) const = default;
};

// Returns the tokens that followed the first occurrence of the latest `lookup_max` tokens. If these
// did not occur before, tries one token less, and so on down to lookup_min. The result is a part of
// `tokens`, has at most `drafts_max` tokens, and is empty if nothing occurs again.
// REQUIRES: 1 <= lookup_min <= lookup_max. Cost: at most tokens * lookup_max * (lookup_max -
// lookup_min + 1) comparisons. Source: vLLM's NgramProposer (longest match, leftmost occurrence).
std::span<const std::int32_t> ProposeByNgram(std::span<const std::int32_t> tokens,
                                             std::int32_t drafts_max, const NgramConfig& config);

}  // namespace twin::exec
