// Packing of cached keys and values, and the online softmax.
#pragma once

#include "kernels/vector/lanes.h"
#include "kernels/vector/vector_kernels.h"

namespace twin::kernels {
namespace {

void NarrowToBf16(const float* x, std::int64_t size, std::uint16_t* y) {
  const auto round = [](BitLanes bits) {
    const BitLanes rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    // A NaN could be rounded to infinity: keep it quiet.
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

// Elements first.. of a cached row of `dim`, zero behind its end.
inline Lanes LoadCached(const void* row, bool bf16, std::int64_t first, std::int64_t dim) {
  if (bf16) {
    const auto* p = static_cast<const std::uint16_t*>(row) + first;
    return first + kLanes <= dim ? LoadBf16(p) : LoadBf16Part(p, dim - first);
  }
  const auto* p = static_cast<const float*>(row) + first;
  return first + kLanes <= dim ? Load(p) : LoadPart(p, dim - first);
}

template <std::int64_t... kIndex>
struct Indices {};
template <std::int64_t kCount, std::int64_t... kIndex>
struct Count : Count<kCount - 1, kCount - 1, kIndex...> {};
template <std::int64_t... kIndex>
struct Count<0, kIndex...> {
  using Type = Indices<kIndex...>;
};

// Swaps the off-diagonal squares of side kSide in rows a and b, kSide apart.
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
        SwapSquares<kSide>(rows[i], rows[i + kSide], typename Count<kLanes>::Type{});
      }
    }
    Transpose<kSide / 2>(rows);
  }
}

void PackKeys(const void* const* keys, bool bf16, std::int64_t panels, std::int64_t dim,
              float* out) {
  for (std::int64_t key = 0; key < panels * kPanelColumns; key += kLanes) {
    float* place = out + key / kPanelColumns * dim * kPanelColumns + key % kPanelColumns;
    for (std::int64_t d = 0; d < dim; d += kLanes) {
      Lanes rows[kLanes];
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < kLanes; ++i) rows[i] = LoadCached(keys[key + i], bf16, d, dim);
      Transpose(rows);
      if (d + kLanes <= dim) {
#pragma GCC unroll 16
        for (std::int64_t i = 0; i < kLanes; ++i) Store(place + (d + i) * kPanelColumns, rows[i]);
      } else {
        for (std::int64_t i = 0; d + i < dim; ++i) Store(place + (d + i) * kPanelColumns, rows[i]);
      }
    }
  }
}

void PackValues(const void* const* values, bool bf16, std::int64_t count, std::int64_t dim,
                float* out) {
  const std::int64_t padded = (dim + kPanelColumns - 1) / kPanelColumns * kPanelColumns;
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t d = 0; d < padded; d += kLanes) {
      float* place = out + (d / kPanelColumns * count + i) * kPanelColumns + d % kPanelColumns;
      Store(place, d < dim ? LoadCached(values[i], bf16, d, dim) : Lanes{});
    }
  }
}

inline float Largest(Lanes x) {
  float largest = x[0];
  for (std::int64_t lane = 1; lane < kLanes; ++lane)
    largest = x[lane] > largest ? x[lane] : largest;
  return largest;
}

float SoftmaxOfChunk(const SoftmaxChunk& chunk) {
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
  const float maximum = Largest(largest);
  Lanes sums = {};
  for (std::int64_t i = 0; i < chunk.width; i += kLanes) {
    const Lanes weight = Exp(Load(chunk.scores + i) - Fill(maximum));
    Store(chunk.scores + i, weight);
    sums += weight;
  }
  const float factor =
      *chunk.maximum == maximum ? 1.0F : Exp(Fill(*chunk.maximum) - Fill(maximum))[0];
  float lanes[kLanes];
  Store(lanes, sums);
  const float added = Sum(lanes, kLanes, [](Lanes v) { return v; });
  *chunk.sum = *chunk.sum * factor + added;
  *chunk.maximum = maximum;
  return factor;
}

}  // namespace
}  // namespace twin::kernels
