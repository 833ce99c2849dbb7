// The microkernel of Gemm for weights of 4 bits.
#pragma once

#include "kernels/vector/gemm_tiles.h"

namespace twin::kernels {
namespace {

// Computes (q - zero) * scale as q * scale - zero * scale: both products and their difference are
// exact, so that it does not matter whether they are fused.
struct Int4Scale {
  Lanes scale;
  Lanes offset;
};

inline __attribute__((always_inline)) Int4Scale ScaleOf(const Int4Block& block, std::int64_t k,
                                                        std::int64_t column) {
  const std::int64_t at = (block.first + k) / block.group * kPanelColumns + column;
  const Lanes scale = Load(block.scales + at);
  return {scale, -(ToFloat(LoadBytes(block.zeros + at)) * scale)};
}

// The column at which the next group's scale begins, at most `depth`.
inline std::int64_t GroupEnd(const Int4Block& block, std::int64_t k, std::int64_t depth) {
  const std::int64_t end = ((block.first + k) / block.group + 1) * block.group - block.first;
  return end < depth ? end : depth;
}

struct Int4Panel {
  const Int4Block& block;

  template <std::size_t kRows, std::size_t kVectors>
  inline __attribute__((always_inline)) void Multiply(const Tile& tile, std::int64_t first,
                                                      Accumulators<kRows, kVectors>& sums) const {
    const auto* x = static_cast<const float*>(tile.x);
    const char* ahead = static_cast<const char*>(tile.ahead);
    const std::int64_t step = tile.ahead_step;
    const std::uint8_t* w = block.weights + first;
    for (std::int64_t start = 0; start < tile.depth;) {
      Int4Scale scales[kVectors];
#pragma GCC unroll 16
      for (std::size_t v = 0; v < kVectors; ++v) {
        scales[v] = ScaleOf(block, start, first + static_cast<std::int64_t>(v) * kLanes);
      }
      const std::int64_t end = GroupEnd(block, start, tile.depth);
      for (std::int64_t k = start; k < end; k += 2, w += kPanelColumns, ahead += 2 * step) {
        Prefetch(ahead);
        BitLanes pairs[kVectors];
        Lanes row[kVectors];
#pragma GCC unroll 16
        for (std::size_t v = 0; v < kVectors; ++v) {
          pairs[v] = LoadBytes(w + v * kLanes);
          row[v] = ToFloat(pairs[v] & 0xFU) * scales[v].scale + scales[v].offset;
        }
        sums.Take(x + k, row);
        if (k + 1 == tile.depth) break;
#pragma GCC unroll 16
        for (std::size_t v = 0; v < kVectors; ++v) {
          row[v] = ToFloat(pairs[v] >> 4) * scales[v].scale + scales[v].offset;
        }
        sums.Take(x + k + 1, row);
      }
      start = end;
    }
  }
};

inline void MultiplyInt4(const Tile& tile, const Int4Block& block) {
  MultiplyRows(tile, Int4Panel{block});
}

inline void WidenInt4Panel(const Int4Block& block, std::int64_t depth, float* out) {
  for (std::int64_t start = 0; start < depth;) {
    const std::int64_t end = GroupEnd(block, start, depth);
    for (std::int64_t c = 0; c < kPanelColumns; c += kLanes) {
      const Int4Scale of = ScaleOf(block, start, c);
      for (std::int64_t k = start; k < end; k += 2) {
        const BitLanes pairs = LoadBytes(block.weights + k / 2 * kPanelColumns + c);
        Store(out + k * kPanelColumns + c, ToFloat(pairs & 0xFU) * of.scale + of.offset);
        if (k + 1 == end) break;
        Store(out + (k + 1) * kPanelColumns + c, ToFloat(pairs >> 4) * of.scale + of.offset);
      }
    }
    start = end;
  }
}

}  // namespace
}  // namespace twin::kernels
