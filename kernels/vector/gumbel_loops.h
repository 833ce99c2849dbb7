// Loops over the candidate tokens of random sampling (gumbel.h).
#pragma once

#include "kernels/gumbel.h"
#include "kernels/vector/vector_kernels.h"

namespace twin::kernels {
namespace {

inline std::int64_t GumbelChoice(const GumbelRow& row, const float* logits,
                                 const std::int32_t* tokens, std::int64_t size) {
  constexpr std::int64_t kStretch = 256;
  const auto token_of = [&](std::int64_t i) {
    return tokens == nullptr ? static_cast<std::int32_t>(i) : tokens[i];
  };
  std::uint32_t numbers[kStretch];
  std::uint32_t scores[kStretch];
  std::uint32_t best_score = 0;
  std::int64_t best = -1;
  for (std::int64_t first = 0; first < size; first += kStretch) {
    const std::int64_t count = size - first < kStretch ? size - first : kStretch;
    // Three separate loops, because the compiler vectorises each of them.
    for (std::int64_t i = 0; i < kStretch; ++i) {
      numbers[i] = static_cast<std::uint32_t>(i < count ? token_of(first + i) : 0);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      scores[i] = OrderedBits(GumbelScore(row, logits[first + i], numbers[i]));
    }
    std::uint32_t largest = 0;
    for (std::int64_t i = 0; i < count; ++i) largest = scores[i] > largest ? scores[i] : largest;
    if (best >= 0 && largest < best_score) continue;
    for (std::int64_t i = 0; i < count; ++i) {
      if (scores[i] != largest) continue;
      const bool wins = best < 0 || largest > best_score || token_of(first + i) < token_of(best);
      if (wins) best = first + i;
      best_score = largest;
    }
  }
  return best;
}

inline float LowestOfWeight(const float* logits, std::int64_t size, float largest, float sharpness,
                            std::uint64_t enough) {
  float lowest = largest;
  for (std::int64_t i = 0; i < size; ++i) {
    const bool reaches = WeightOf(logits[i], largest, sharpness) >= enough;
    lowest = reaches && logits[i] < lowest ? logits[i] : lowest;
  }
  return lowest;
}

inline std::uint64_t SumOfWeights(const float* logits, std::int64_t size, float largest,
                                  float sharpness) {
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < size; ++i) sum += WeightOf(logits[i], largest, sharpness);
  return sum;
}

}  // namespace
}  // namespace twin::kernels
