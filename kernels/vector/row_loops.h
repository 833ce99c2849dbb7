// Loops over one row: norms, activations, rotary embedding, and elementwise operations.
#pragma once

#include "kernels/vector/lanes.h"
#include "kernels/vector/vector_kernels.h"

namespace twin::kernels {
namespace {

inline void RmsNormRow(const float* x, const float* gain, float epsilon, std::int64_t size,
                       float* y) {
  const float squares = Sum(x, size, [](Lanes v) { return v * v; });
  const float factor = 1.0F / __builtin_sqrtf(squares / static_cast<float>(size) + epsilon);
  Map2(x, gain, size, y, [&](Lanes v, Lanes g) { return v * Fill(factor) * g; });
}

inline void LayerNormRow(const float* x, const float* gain, const float* bias, float epsilon,
                         std::int64_t size, float* y) {
  const float count = static_cast<float>(size);
  const float mean = Sum(x, size, [](Lanes v) { return v; }) / count;
  // Two passes: in one pass, the difference of large squares would lose significant digits.
  Map(x, size, y, [&](Lanes v) { return v - Fill(mean); });
  const float squares = Sum(y, size, [](Lanes v) { return v * v; });
  const float factor = 1.0F / __builtin_sqrtf(squares / count + epsilon);
  Map2(y, gain, size, y, [&](Lanes v, Lanes g) { return v * Fill(factor) * g; });
  Map2(y, bias, size, y, [](Lanes v, Lanes b) { return v + b; });
}

inline void AddRow(const float* x, std::int64_t size, float* y) {
  Map2(x, y, size, y, [](Lanes a, Lanes b) { return a + b; });
}

inline void ScaleRow(float factor, std::int64_t size, float* y) {
  Map(y, size, y, [&](Lanes v) { return v * Fill(factor); });
}

inline void SoftCapRow(float cap, std::int64_t size, float* y) {
  Map(y, size, y, [&](Lanes v) { return Fill(cap) * Tanh(v / Fill(cap)); });
}

inline void Turn(Lanes& a, Lanes& b, Lanes cosine, Lanes sine) {
  const Lanes first = a * cosine - b * sine;
  b = b * cosine + a * sine;
  a = first;
}

inline void RotateHead(const float* cosines, const float* sines, std::int64_t pairs, float* head) {
  float* other = head + pairs;
  std::int64_t i = 0;
  for (; i + kLanes <= pairs; i += kLanes) {
    Lanes a = Load(head + i);
    Lanes b = Load(other + i);
    Turn(a, b, Load(cosines + i), Load(sines + i));
    Store(head + i, a);
    Store(other + i, b);
  }
  if (const std::int64_t rest = pairs - i; rest > 0) {
    Lanes a = LoadPart(head + i, rest);
    Lanes b = LoadPart(other + i, rest);
    Turn(a, b, LoadPart(cosines + i, rest), LoadPart(sines + i, rest));
    StorePart(head + i, rest, a);
    StorePart(other + i, rest, b);
  }
}

// Every second element of a and b, from the first or the second on; and the inverse: elements of a
// and b in turn, the first or the second half of them.
template <std::int64_t kFirst, std::int64_t... kIndex>
inline __attribute__((always_inline)) Lanes EverySecond(Lanes a, Lanes b, Indices<kIndex...>) {
  return __builtin_shufflevector(a, b, (2 * kIndex + kFirst)...);
}
template <std::int64_t kFirst, std::int64_t... kIndex>
inline __attribute__((always_inline)) Lanes InTurn(Lanes a, Lanes b, Indices<kIndex...>) {
  return __builtin_shufflevector(a, b, (kFirst + kIndex / 2 + kIndex % 2 * kLanes)...);
}

inline void RotateNeighbours(const float* cosines, const float* sines, std::int64_t pairs,
                             float* head) {
  for (std::int64_t i = 0; i < pairs; i += kLanes) {
    float* const at = head + 2 * i;
    const std::int64_t count = pairs - i < kLanes ? pairs - i : kLanes;
    const bool whole = count == kLanes;
    const std::int64_t low = 2 * count < kLanes ? 2 * count : kLanes;
    const std::int64_t high = 2 * count - low;
    const Lanes first = whole ? Load(at) : LoadPart(at, low);
    const Lanes second = whole ? Load(at + kLanes) : LoadPart(at + low, high);
    Lanes even = EverySecond<0>(first, second, AllLanes{});
    Lanes odd = EverySecond<1>(first, second, AllLanes{});
    Turn(even, odd, whole ? Load(cosines + i) : LoadPart(cosines + i, count),
         whole ? Load(sines + i) : LoadPart(sines + i, count));
    const Lanes low_half = InTurn<0>(even, odd, AllLanes{});
    const Lanes high_half = InTurn<kLanes / 2>(even, odd, AllLanes{});
    if (whole) {
      Store(at, low_half);
      Store(at + kLanes, high_half);
    } else {
      StorePart(at, low, low_half);
      StorePart(at + low, high, high_half);
    }
  }
}

inline Lanes Silu(Lanes z) { return z / (Fill(1.0F) + Exp(-z)); }

// Phi is computed from the error function of Abramowitz and Stegun, 7.1.26 (absolute error 1.5e-7).
inline Lanes Gelu(Lanes z) {
  const Lanes size = AsFloat(AsBits(z) & 0x7FFFFFFFU) * Fill(0.70710678F);
  const Lanes t = Fill(1.0F) / (Fill(1.0F) + Fill(0.3275911F) * size);
  Lanes p = Fill(1.061405429F);
  p = p * t + Fill(-1.453152027F);
  p = p * t + Fill(1.421413741F);
  p = p * t + Fill(-0.284496736F);
  p = p * t + Fill(0.254829592F);
  const Lanes tail = Fill(0.5F) * p * t * Exp(-size * size);
  return z * Select(z > Lanes{}, Fill(1.0F) - tail, tail);
}

inline Lanes GeluTanh(Lanes z) {
  const Lanes inner = Fill(0.79788456F) * (z + Fill(0.044715F) * z * z * z);
  return Fill(0.5F) * z * (Fill(1.0F) + Tanh(inner));
}

template <class Function>
inline void ActivateWith(Function function, const float* gate, const float* up, std::int64_t size,
                         float* y) {
  if (up == nullptr) {
    Map(gate, size, y, function);
  } else {
    Map2(gate, up, size, y, [&](Lanes g, Lanes u) { return function(g) * u; });
  }
}

inline void ActivateRow(Activation activation, const float* gate, const float* up,
                        std::int64_t size, float* y) {
  switch (activation) {
    case Activation::kSilu:
      return ActivateWith([](Lanes z) { return Silu(z); }, gate, up, size, y);
    case Activation::kGelu:
      return ActivateWith([](Lanes z) { return Gelu(z); }, gate, up, size, y);
    case Activation::kGeluTanh:
      return ActivateWith([](Lanes z) { return GeluTanh(z); }, gate, up, size, y);
    case Activation::kRelu:
      return ActivateWith([](Lanes z) { return Max(z, Lanes{}); }, gate, up, size, y);
  }
}

}  // namespace
}  // namespace twin::kernels
