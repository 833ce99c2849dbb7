// The loops of attention: packing of cached keys and values, and the online softmax.
#pragma once

#include "kernels/vector/lanes.h"
#include "kernels/vector/vector_kernels.h"

namespace twin::kernels {
namespace {

inline void NarrowToBf16(const float* x, std::int64_t size, std::uint16_t* y) {
  const auto round = [](BitLanes bits) {
    const BitLanes rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    // Rounding could turn a NaN into infinity, so NaN is converted to a quiet NaN instead.
    const BitLanes quiet = (bits >> 16) | 0x40U;
    const auto is_nan = reinterpret_cast<BitLanes>((bits & 0x7FFFFFFFU) > 0x7F800000U);
    return (quiet & is_nan) | (rounded & ~is_nan);
  };
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    *reinterpret_cast<ShortLanesAt*>(y + i) =
        __builtin_convertvector(round(AsBits(Load(x + i))), ShortLanes);
  }
  if (i < size) {
    const BitLanes rest = round(AsBits(LoadPart(x + i, size - i)));
    for (std::int64_t lane = 0; lane < size - i; ++lane) {
      y[i + lane] = static_cast<std::uint16_t>(rest[lane]);
    }
  }
}

// Loads kLanes elements from `first` on of a cache row in format T, as fp32.
template <class T>
inline Lanes LoadCached(const void* row, std::int64_t first) {
  if constexpr (sizeof(T) == 2) {
    return LoadBf16(static_cast<const T*>(row) + first);
  } else {
    return Load(static_cast<const T*>(row) + first);
  }
}
// Loads the last `count` < kLanes elements; the other lanes are zero.
template <class T>
inline Lanes LoadCachedPart(const void* row, std::int64_t first, std::int64_t count) {
  if constexpr (sizeof(T) == 2) {
    return LoadBf16Part(static_cast<const T*>(row) + first, count);
  } else {
    return LoadPart(static_cast<const T*>(row) + first, count);
  }
}

// One step of Transpose: swaps the off-diagonal squares of side kSide in rows a and b, which are
// kSide rows apart.
template <std::int64_t kSide, std::int64_t... kIndex>
inline __attribute__((always_inline)) void SwapSquares(Lanes& a, Lanes& b, Indices<kIndex...>) {
  const Lanes first =
      __builtin_shufflevector(a, b, (kIndex & kSide ? kLanes + kIndex - kSide : kIndex)...);
  b = __builtin_shufflevector(a, b, (kIndex & kSide ? kLanes + kIndex : kIndex + kSide)...);
  a = first;
}

template <std::int64_t kSide = kLanes / 2>
inline __attribute__((always_inline)) void Transpose(Lanes (&rows)[kLanes]) {
  if constexpr (kSide > 0) {
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kLanes; ++i) {
      if ((i & kSide) == 0) {
        SwapSquares<kSide>(rows[i], rows[i + kSide], AllLanes{});
      }
    }
    Transpose<kSide / 2>(rows);
  }
}

// Packs kLanes keys as columns of `out`.
template <class T>
inline void PackKeyColumns(const void* const* keys, std::int64_t dim, float* out) {
  Lanes rows[kLanes];
  std::int64_t d = 0;
  for (; d + kLanes <= dim; d += kLanes) {
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kLanes; ++i) rows[i] = LoadCached<T>(keys[i], d);
    Transpose(rows);
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kLanes; ++i) Store(out + (d + i) * kPanelColumns, rows[i]);
  }
  if (d == dim) return;
  for (std::int64_t i = 0; i < kLanes; ++i) rows[i] = LoadCachedPart<T>(keys[i], d, dim - d);
  Transpose(rows);
  for (std::int64_t i = 0; d + i < dim; ++i) Store(out + (d + i) * kPanelColumns, rows[i]);
}

inline void PackKeys(const void* const* keys, bool bf16, std::int64_t panels, std::int64_t dim,
                     float* out) {
  for (std::int64_t key = 0; key < panels * kPanelColumns; key += kLanes) {
    float* place = out + key / kPanelColumns * dim * kPanelColumns + key % kPanelColumns;
    if (bf16) {
      PackKeyColumns<std::uint16_t>(keys + key, dim, place);
    } else {
      PackKeyColumns<float>(keys + key, dim, place);
    }
  }
}

template <class T>
inline void PackValuesOf(const void* const* values, std::int64_t count, std::int64_t dim,
                         float* out) {
  const std::int64_t whole = dim / kLanes * kLanes;
  const std::int64_t padded = (dim + kPanelColumns - 1) / kPanelColumns * kPanelColumns;
  const auto place = [&](std::int64_t i, std::int64_t d) {
    return out + (d / kPanelColumns * count + i) * kPanelColumns + d % kPanelColumns;
  };
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t d = 0;
    for (; d < whole; d += kLanes) Store(place(i, d), LoadCached<T>(values[i], d));
    if (d < dim) {
      Store(place(i, d), LoadCachedPart<T>(values[i], d, dim - d));
      d += kLanes;
    }
    for (; d < padded; d += kLanes) Store(place(i, d), Lanes{});
  }
}

inline void PackValues(const void* const* values, bool bf16, std::int64_t count, std::int64_t dim,
                       float* out) {
  if (bf16) {
    PackValuesOf<std::uint16_t>(values, count, dim, out);
  } else {
    PackValuesOf<float>(values, count, dim, out);
  }
}

inline float SoftmaxOfChunk(const SoftmaxChunk& chunk) {
  const float lowest = -__builtin_inff();
  for (std::int64_t i = 0; i < chunk.begin; ++i) chunk.scores[i] = lowest;
  for (std::int64_t i = chunk.end; i < chunk.width; ++i) chunk.scores[i] = lowest;
  Lanes largest = Fill(*chunk.maximum);
  for (std::int64_t i = 0; i < chunk.width; i += kLanes) {
    Lanes score = Load(chunk.scores + i);
    if (chunk.cap > 0) {
      const Lanes capped = Fill(chunk.cap) * Tanh(score / Fill(chunk.cap));
      score = Select(score == Fill(lowest), score, capped);
      Store(chunk.scores + i, score);
    }
    largest = Max(score, largest);
  }
  const float maximum = ReduceLanes(largest, Max);
  Lanes sums = {};
  for (std::int64_t i = 0; i < chunk.width; i += kLanes) {
    const Lanes weight = Exp(Load(chunk.scores + i) - Fill(maximum));
    Store(chunk.scores + i, weight);
    sums += weight;
  }
  const float factor =
      *chunk.maximum == maximum ? 1.0F : Exp(Fill(*chunk.maximum) - Fill(maximum))[0];
  const float added = ReduceLanes(sums, [](Lanes a, Lanes b) { return a + b; });
  *chunk.sum = *chunk.sum * factor + added;
  *chunk.maximum = maximum;
  return factor;
}

}  // namespace
}  // namespace twin::kernels
