// Loops that measure the upper limits of all kernels: multiply-adds in registers, and reading
// memory.
#pragma once

#include "kernels/vector/lanes.h"
#include "kernels/vector/vector_kernels.h"

namespace twin::kernels {
namespace {

// Independent chains: enough to hide the latency of two multiply-adds per cycle, and few enough for
// the registers.
inline constexpr std::int64_t kChains = kLanes == 16 ? 24 : 12;

inline float MultiplyAdds(std::int64_t rounds, std::int64_t* operations) {
  Lanes chains[kChains];
#pragma GCC unroll 32
  for (std::int64_t i = 0; i < kChains; ++i) chains[i] = Fill(static_cast<float>(i));
  // The chains converge to 2, so that they neither overflow nor become subnormal.
  const Lanes factor = Fill(0.5F);
  const Lanes term = Fill(1.0F);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 32
    for (std::int64_t i = 0; i < kChains; ++i) chains[i] = chains[i] * factor + term;
  }
  *operations = 2 * kChains * kLanes * rounds;
  Lanes sum{};
#pragma GCC unroll 32
  for (std::int64_t i = 0; i < kChains; ++i) sum += chains[i];
  return ReduceLanes(sum, [](Lanes a, Lanes b) { return a + b; });
}

inline float ReadThrough(const float* p, std::int64_t size) {
  constexpr std::int64_t kVectors = 8;
  constexpr std::int64_t kStep = kVectors * kLanes;
  constexpr std::int64_t kAhead = 1024;  // floats: one page, where hardware prefetching ends
  Lanes sums[kVectors] = {};
  for (std::int64_t i = 0; i + kStep <= size; i += kStep) {
#pragma GCC unroll 8
    for (std::int64_t line = 0; line < kStep; line += 16) {
      __builtin_prefetch(p + i + kAhead + line, 0, 3);
    }
#pragma GCC unroll 8
    for (std::int64_t v = 0; v < kVectors; ++v) sums[v] += Load(p + i + v * kLanes);
  }
  Lanes sum{};
#pragma GCC unroll 8
  for (std::int64_t v = 0; v < kVectors; ++v) sum += sums[v];
  return ReduceLanes(sum, [](Lanes a, Lanes b) { return a + b; });
}

}  // namespace
}  // namespace twin::kernels
