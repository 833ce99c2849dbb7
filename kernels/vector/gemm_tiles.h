// The microkernels of Gemm and attention: they multiply a few rows of x by a panel of 32 columns.
#pragma once

#include "kernels/vector/lanes.h"
#include "kernels/vector/vector_kernels.h"

namespace twin::kernels {
namespace {

inline constexpr std::int64_t kPanelVectors = kPanelColumns / kLanes;
// Accumulator registers of a tile. The rest of the 16 registers (AVX-512: 32) holds the panel's
// vectors and one of x.
inline constexpr std::size_t kAccumulators = kLanes == 16 ? 24 : 12;
inline constexpr std::size_t kTileRows = kLanes == 16 ? 12 : kLanes == 8 ? 6 : 4;

// How many vectors of the panel's width a tile of `rows` rows processes at once.
inline constexpr std::size_t VectorsAtOnce(std::size_t rows) {
  std::size_t vectors = kPanelVectors;
  while (vectors > 2 && rows * vectors > kAccumulators) vectors /= 2;
  return vectors;
}

inline void Prefetch(const char* p) { __builtin_prefetch(p, 0, 3); }

template <std::size_t kRows, std::size_t kVectors>
struct Accumulators {
  Lanes sum[kRows][kVectors] = {};

  // sum[r] += x[r][k] * w
  inline __attribute__((always_inline)) void Take(const float* x, const Lanes (&w)[kVectors]) {
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kRows; ++r) {
      const Lanes factor = Fill(x[r * kTileStride]);
#pragma GCC unroll 16
      for (std::size_t v = 0; v < kVectors; ++v) sum[r][v] += factor * w[v];
    }
  }

  inline __attribute__((always_inline)) void AddTo(float* y, std::int64_t stride) const {
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (std::size_t v = 0; v < kVectors; ++v) {
        Store(y + v * kLanes, Load(y + v * kLanes) + sum[r][v]);
      }
      y += stride;
    }
  }
};

struct Fp32Panel {
  const float* weights;

  template <std::size_t kRows, std::size_t kVectors>
  inline __attribute__((always_inline)) void Multiply(const Tile& tile, std::int64_t first,
                                                      Accumulators<kRows, kVectors>& sums) const {
    const auto* x = static_cast<const float*>(tile.x);
    const char* ahead = static_cast<const char*>(tile.ahead);
    const std::int64_t step = tile.ahead_step;
    const float* w = weights + first;
    for (std::int64_t k = 0; k < tile.depth; ++k, w += kPanelColumns, ahead += step) {
      Prefetch(ahead);
      Prefetch(ahead + step / 2);
      Lanes row[kVectors];
#pragma GCC unroll 16
      for (std::size_t v = 0; v < kVectors; ++v) row[v] = Load(w + v * kLanes);
      sums.Take(x + k, row);
    }
  }
};

struct Bf16Panel {
  const std::uint16_t* weights;

  template <std::size_t kRows, std::size_t kVectors>
  inline __attribute__((always_inline)) void Multiply(const Tile& tile, std::int64_t first,
                                                      Accumulators<kRows, kVectors>& sums) const {
    const auto* x = static_cast<const float*>(tile.x);
    const char* ahead = static_cast<const char*>(tile.ahead);
    const std::int64_t step = tile.ahead_step;
    const std::uint16_t* w = weights + 2 * first;
    for (std::int64_t k = 0; k < tile.depth; k += 2, w += 2 * kPanelColumns, ahead += 2 * step) {
      Prefetch(ahead);
      Prefetch(ahead + step);
      BitLanes pairs[kVectors];
      Lanes row[kVectors];
#pragma GCC unroll 16
      for (std::size_t v = 0; v < kVectors; ++v) {
        pairs[v] = *reinterpret_cast<const BitLanesAt*>(w + v * 2 * kLanes);
        row[v] = AsFloat(pairs[v] << 16);
      }
      sums.Take(x + k, row);
      if (k + 1 == tile.depth) break;
#pragma GCC unroll 16
      for (std::size_t v = 0; v < kVectors; ++v) row[v] = AsFloat(pairs[v] & 0xFFFF0000U);
      sums.Take(x + k + 1, row);
    }
  }
};

struct Int8Panel {
  const std::int8_t* weights;
  const std::uint16_t* scales;

  template <std::size_t kRows, std::size_t kVectors>
  inline __attribute__((always_inline)) void Multiply(const Tile& tile, std::int64_t first,
                                                      Accumulators<kRows, kVectors>& sums) const {
    const auto* x = static_cast<const float*>(tile.x);
    const char* ahead = static_cast<const char*>(tile.ahead);
    const std::int64_t step = tile.ahead_step;
    constexpr std::int64_t kGroup = 32;
    const std::int8_t* w = weights + first;
    for (std::int64_t start = 0; start < tile.depth; start += kGroup) {
      Lanes scale[kVectors];
#pragma GCC unroll 16
      for (std::size_t v = 0; v < kVectors; ++v) {
        scale[v] = LoadBf16(scales + start / kGroup * kPanelColumns + first + v * kLanes);
      }
      const std::int64_t end = tile.depth - start < kGroup ? tile.depth : start + kGroup;
      for (std::int64_t k = start; k < end; ++k, w += kPanelColumns, ahead += step) {
        Prefetch(ahead);
        Lanes row[kVectors];
#pragma GCC unroll 16
        for (std::size_t v = 0; v < kVectors; ++v) row[v] = LoadInt8(w + v * kLanes) * scale[v];
        sums.Take(x + k, row);
      }
    }
  }
};

template <std::size_t kRows, class Panel>
inline void Multiply(const Tile& tile, const Panel& panel) {
  constexpr std::size_t kVectors = VectorsAtOnce(kRows);
  constexpr std::int64_t kColumns = kVectors * kLanes;
  for (std::int64_t first = 0; first < kPanelColumns; first += kColumns) {
    Accumulators<kRows, kVectors> sums;
    panel.Multiply(tile, first, sums);
    sums.AddTo(tile.y + first, tile.y_stride);
  }
}

// Calls Multiply<tile.rows>, for 1 <= rows <= kTileRows.
template <std::size_t kRows = kTileRows, class Panel>
inline void MultiplyRows(const Tile& tile, const Panel& panel) {
  if constexpr (kRows > 0) {
    if (tile.rows == kRows) return Multiply<kRows>(tile, panel);
    MultiplyRows<kRows - 1>(tile, panel);
  }
}

inline void MultiplyFp32(const Tile& tile, const float* panel) {
  MultiplyRows(tile, Fp32Panel{panel});
}
inline void MultiplyBf16(const Tile& tile, const std::uint16_t* panel) {
  MultiplyRows(tile, Bf16Panel{panel});
}
inline void MultiplyInt8(const Tile& tile, const std::int8_t* panel, const std::uint16_t* scales) {
  MultiplyRows(tile, Int8Panel{panel, scales});
}

inline void WidenBf16Panel(const std::uint16_t* panel, std::int64_t depth, float* out) {
  for (std::int64_t k = 0; k < depth; k += 2) {
    for (std::int64_t c = 0; c < kPanelColumns; c += kLanes) {
      const BitLanes pairs =
          *reinterpret_cast<const BitLanesAt*>(panel + (k * kPanelColumns + 2 * c));
      Store(out + k * kPanelColumns + c, AsFloat(pairs << 16));
      if (k + 1 < depth) Store(out + (k + 1) * kPanelColumns + c, AsFloat(pairs & 0xFFFF0000U));
    }
  }
}

inline void WidenInt8Panel(const std::int8_t* panel, const std::uint16_t* scales,
                           std::int64_t depth, float* out) {
  constexpr std::int64_t kGroup = 32;
  for (std::int64_t k = 0; k < depth; ++k) {
    for (std::int64_t c = 0; c < kPanelColumns; c += kLanes) {
      const Lanes scale = LoadBf16(scales + k / kGroup * kPanelColumns + c);
      Store(out + k * kPanelColumns + c, LoadInt8(panel + k * kPanelColumns + c) * scale);
    }
  }
}

}  // namespace
}  // namespace twin::kernels
