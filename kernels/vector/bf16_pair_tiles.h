// The microkernel of Gemm for processors with dot products of bf16 pairs (AVX-512 BF16). Empty if
// the compiler does not target them.
#pragma once

#include "kernels/vector/gemm_tiles.h"

#ifdef __AVX512BF16__

namespace twin::kernels {
namespace {

// A pair of bf16, read from memory that was written as another type.
using PairAt = std::uint32_t __attribute__((may_alias));

// Adds the product of the odd numbers to `sum` and rounds, then adds the product of the even
// numbers and rounds. Products of two bf16 are exact in fp32. Subnormal numbers count as zero.
inline Lanes AddProductsOfPairs(Lanes sum, BitLanes a, BitLanes b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

struct Bf16PairPanel {
  const std::uint16_t* weights;

  template <std::size_t kRows, std::size_t kVectors>
  inline __attribute__((always_inline)) void Multiply(const Tile& tile, std::int64_t first,
                                                      Accumulators<kRows, kVectors>& sums) const {
    const auto* x = static_cast<const PairAt*>(tile.x);
    const char* ahead = static_cast<const char*>(tile.ahead);
    const std::int64_t step = tile.ahead_step;
    const std::uint16_t* w = weights + 2 * first;
    for (std::int64_t k = 0; k < tile.depth; ++k, ++x, w += 2 * kPanelColumns, ahead += step) {
      Prefetch(ahead);
      Prefetch(ahead + step / 2);
      BitLanes pairs[kVectors];
#pragma GCC unroll 16
      for (std::size_t v = 0; v < kVectors; ++v) {
        pairs[v] = *reinterpret_cast<const BitLanesAt*>(w + v * 2 * kLanes);
      }
#pragma GCC unroll 16
      for (std::size_t r = 0; r < kRows; ++r) {
        const BitLanes factor = x[r * kTileStride] - BitLanes{};
#pragma GCC unroll 16
        for (std::size_t v = 0; v < kVectors; ++v) {
          sums.sum[r][v] = AddProductsOfPairs(sums.sum[r][v], factor, pairs[v]);
        }
      }
    }
  }
};

inline void MultiplyBf16Pairs(const Tile& tile, const std::uint16_t* panel) {
  MultiplyRows(tile, Bf16PairPanel{panel});
}

}  // namespace
}  // namespace twin::kernels

#endif  // __AVX512BF16__
