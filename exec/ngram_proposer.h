// Drafts from what a request's own text says (prompt lookup, speculative decoding without a model).
#pragma once

#include <cstdint>
#include <span>

namespace twin::exec {

// Defaults: those of vLLM.
struct NgramConfig {
  std::int32_t lookup_min = 5;  // tokens that must occur again, at least
  std::int32_t lookup_max = 5;  // as many are tried first

  bool operator==(const NgramConfig&) const = default;
};

// The tokens that followed the latest `lookup_max` tokens where these occurred first; if they did
// not occur before, the same with one token less, down to lookup_min. At most `drafts_max` tokens;
// empty if nothing occurs again. A part of `tokens`.
// REQUIRES: 1 <= lookup_min <= lookup_max. Cost: tokens * lookup_max * (lookup_max - lookup_min +
// 1) comparisons at most. Source: vLLM's NgramProposer (longest match, leftmost occurrence).
std::span<const std::int32_t> ProposeByNgram(std::span<const std::int32_t> tokens,
                                             std::int32_t drafts_max, const NgramConfig& config);

}  // namespace twin::exec
