// The likeliest tokens of a row of logits, in the form in which a device reports them. The host
// takes the logarithms, so that they equal the CPU's own.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/sampling.h"

namespace twin::kernels {

// The most alternatives that a device reports for a row.
inline constexpr std::int32_t kTopLogitsMax = 20;

struct TokenLogit {
  std::int32_t token = 0;
  float logit = 0;
};

struct TopLogits {
  std::uint64_t weights = 0;  // the sum of WeightOf(logit, largest, 1) over the row
  float largest = 0;          // logit; NaN if all logits are NaN
  float chosen = 0;           // logit of the chosen token
  std::int32_t count = 0;
  TokenLogit top[kTopLogitsMax];  // the first `count` entries, in the order of AppendLogprobs
};

// The result of AppendLogprobs for the row and `token`, the chosen one, with `count` alternatives.
void AppendLogprobs(const TopLogits& logits, std::int32_t token, std::vector<TokenLogprob>& out);

}  // namespace twin::kernels
