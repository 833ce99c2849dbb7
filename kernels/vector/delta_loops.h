// The loops of gated linear attention: a causal convolution, the delta rule, and output gates.
#pragma once

#include "kernels/vector/lanes.h"
#include "kernels/vector/row_loops.h"
#include "kernels/vector/vector_kernels.h"

namespace twin::kernels {
namespace {

inline float SumOfSquares(const float* x, std::int64_t size) {
  return Sum(x, size, [](Lanes v) { return v * v; });
}

inline void ScaleByGain(float factor, const float* gain, std::int64_t size, float* x) {
  Map2(x, gain, size, x, [&](Lanes v, Lanes g) { return v * Fill(factor) * g; });
}

inline void GateBySigmoid(const float* gate, std::int64_t size, float* y) {
  Map2(gate, y, size, y, [](Lanes g, Lanes v) { return v / (Fill(1.0F) + Exp(-g)); });
}

inline void ClampedGate(float limit, const float* gate, const float* up, std::int64_t size,
                        float* y) {
  Map2(gate, up, size, y, [&](Lanes g, Lanes u) {
    const Lanes low = Min(g, Fill(limit));
    const Lanes clamped = Max(Min(u, Fill(limit)), Fill(-limit));
    const Lanes glu = low / (Fill(1.0F) + Exp(Fill(-1.702F) * low));
    return glu * (Fill(1.0F) + clamped);
  });
}

inline void ConvolveRow(const float* const* rows, const float* taps, std::int64_t tap_count,
                        std::int64_t tap_stride, std::int64_t size, float* y) {
  const auto convolve = [&](std::int64_t i, auto load) {
    Lanes sum = {};
    for (std::int64_t tap = 0; tap < tap_count; ++tap) {
      sum += load(taps + tap * tap_stride + i) * load(rows[tap] + i);
    }
    return Silu(sum);
  };
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    Store(y + i, convolve(i, [](const float* p) { return Load(p); }));
  }
  if (const std::int64_t rest = size - i; rest > 0) {
    StorePart(y + i, rest, convolve(i, [&](const float* p) { return LoadPart(p, rest); }));
  }
}

// Up to 4 vectors of the values' width at once, or a part of one vector: their part of the state
// stays in the first-level cache between the two passes.
template <std::int64_t kVectors, class LoadAt, class StoreAt>
inline __attribute__((always_inline)) void StepColumns(const DeltaStep& step, std::int64_t first,
                                                       LoadAt load, StoreAt store) {
  constexpr auto kCount = static_cast<std::size_t>(kVectors);
  Lanes memory[kCount] = {};
  float* row = step.state + first;
  for (std::int64_t k = 0; k < step.key_dim; ++k, row += step.value_dim) {
    const Lanes key = Fill(step.key[k]);
#pragma GCC unroll 4
    for (std::int64_t v = 0; v < kVectors; ++v) {
      const Lanes kept = load(row + v * kLanes) * Fill(step.decay);
      store(row + v * kLanes, kept);
      memory[v] += kept * key;
    }
  }
  Lanes change[kCount];
  Lanes out[kCount] = {};
  for (std::int64_t v = 0; v < kVectors; ++v) {
    change[v] = (load(step.value + first + v * kLanes) - memory[v]) * Fill(step.rate);
  }
  row = step.state + first;
  for (std::int64_t k = 0; k < step.key_dim; ++k, row += step.value_dim) {
    const Lanes key = Fill(step.key[k]);
    const Lanes query = Fill(step.query[k]);
#pragma GCC unroll 4
    for (std::int64_t v = 0; v < kVectors; ++v) {
      const Lanes now = load(row + v * kLanes) + key * change[v];
      store(row + v * kLanes, now);
      out[v] += now * query;
    }
  }
  for (std::int64_t v = 0; v < kVectors; ++v) store(step.out + first + v * kLanes, out[v]);
}

inline void StepDeltaRule(const DeltaStep& step) {
  const auto load = [](const float* p) { return Load(p); };
  const auto store = [](float* p, Lanes x) { Store(p, x); };
  std::int64_t first = 0;
  for (; first + 4 * kLanes <= step.value_dim; first += 4 * kLanes) {
    StepColumns<4>(step, first, load, store);
  }
  for (; first + kLanes <= step.value_dim; first += kLanes) {
    StepColumns<1>(step, first, load, store);
  }
  if (const std::int64_t rest = step.value_dim - first; rest > 0) {
    StepColumns<1>(
        step, first, [&](const float* p) { return LoadPart(p, rest); },
        [&](float* p, Lanes x) { StorePart(p, rest, x); });
  }
}

}  // namespace
}  // namespace twin::kernels
