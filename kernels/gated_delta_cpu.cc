#include <algorithm>
#include <array>
#include <cmath>

#include "core/check.h"
#include "kernels/gated_delta.h"
#include "kernels/row_ranges.h"
#include "kernels/vector/vector_kernels.h"

namespace twin::kernels {
namespace {

constexpr float kEpsilon = 1e-6F;
constexpr std::int64_t kTapsMax = 16;
constexpr std::int64_t kChannelsAtOnce = 256;

// The rows of one sequence, and its state.
struct StateRows {
  std::int64_t first, count;
  float* state;
};

StateRows RowsOf(const StateBatch& batch, std::size_t sequence) {
  const std::int64_t first = batch.first_row[sequence];
  return {first, batch.first_row[sequence + 1] - first, batch.states[sequence]};
}

void SetZero(const StateRows& rows, std::int64_t begin, std::int64_t count, MatrixView<float> out) {
  for (std::int64_t t = rows.first; t < rows.first + rows.count; ++t) {
    std::fill_n(out.Row(t) + begin, count, 0.0F);
  }
}

// Convolves channels begin to begin + count - 1 of one sequence.
void Convolve(const VectorKernels& kernels, MatrixView<const float> taps, const StateRows& rows,
              std::int64_t begin, std::int64_t count, MatrixView<float> x) {
  const std::int64_t before = taps.rows - 1;
  // Inputs from `before` rows in front of the first one on.
  const auto input = [&](std::int64_t i) -> const float* {
    return i < before ? rows.state + i * x.columns + begin : x.Row(rows.first + i - before) + begin;
  };
  std::array<float, kTapsMax * kChannelsAtOnce> kept;
  for (std::int64_t i = 0; i < before; ++i) {
    std::copy_n(input(rows.count + i), count, kept.data() + i * count);
  }
  // From the last row on, so that rows are inputs until they have been used.
  std::array<const float*, kTapsMax> inputs;
  for (std::int64_t t = rows.count - 1; t >= 0; --t) {
    for (std::int64_t tap = 0; tap < taps.rows; ++tap) {
      inputs[static_cast<std::size_t>(tap)] = input(t + tap);
    }
    kernels.convolve(inputs.data(), taps.data + begin, taps.rows, taps.stride, count,
                     x.Row(rows.first + t) + begin);
  }
  for (std::int64_t i = 0; i < before; ++i) {
    std::copy_n(kept.data() + i * count, count, rows.state + i * x.columns + begin);
  }
}

float Softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

// Copies x with length `length`.
void CopyScaled(const VectorKernels& kernels, const float* x, std::int64_t size, float length,
                float* y) {
  std::copy_n(x, size, y);
  kernels.scale(length / std::sqrt(kernels.sum_of_squares(x, size) + kEpsilon), size, y);
}

// One value head of one sequence. `scratch`: 2 * key_dim floats.
void StepHead(const VectorKernels& kernels, const DeltaHeads& heads, const StateRows& rows,
              std::int64_t head, const DeltaInputs& inputs, float* scratch, MatrixView<float> out) {
  const std::int64_t key_column = head / (heads.value_heads / heads.key_heads) * heads.key_dim;
  const std::int64_t column = head * heads.value_dim;
  const float factor = std::exp(inputs.decay[static_cast<std::size_t>(head)]);
  const float bias = inputs.decay_bias[static_cast<std::size_t>(head)];
  const float query_length = 1 / std::sqrt(static_cast<float>(heads.key_dim));
  float* const key = scratch;
  float* const query = scratch + heads.key_dim;
  for (std::int64_t t = rows.first; t < rows.first + rows.count; ++t) {
    CopyScaled(kernels, inputs.keys.Row(t) + key_column, heads.key_dim, 1, key);
    CopyScaled(kernels, inputs.queries.Row(t) + key_column, heads.key_dim, query_length, query);
    kernels.delta_step({.key_dim = heads.key_dim,
                        .value_dim = heads.value_dim,
                        .state = rows.state + head * heads.key_dim * heads.value_dim,
                        .query = query,
                        .key = key,
                        .value = inputs.values.Row(t) + column,
                        .decay = std::exp(-factor * Softplus(inputs.decays.Row(t)[head] + bias)),
                        .rate = 1 / (1 + std::exp(-inputs.rates.Row(t)[head])),
                        .out = out.Row(t) + column});
  }
}

}  // namespace

void CausalConvolution(ThreadPool& pool, MatrixView<const float> taps, const StateBatch& batch,
                       MatrixView<float> x) {
  CHECK(taps.columns == x.columns && taps.rows >= 1 && taps.rows <= kTapsMax);
  CHECK(batch.first_row.size() == batch.states.size() + 1 && batch.first_row.back() == x.rows);
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  const std::int64_t pieces = (x.columns + kChannelsAtOnce - 1) / kChannelsAtOnce;
  const std::int64_t count = static_cast<std::int64_t>(batch.states.size()) * pieces;
  pool.ParallelFor(count, 1, [&](std::int64_t begin, std::int64_t end, std::int32_t) {
    for (std::int64_t i = begin; i < end; ++i) {
      const StateRows rows = RowsOf(batch, static_cast<std::size_t>(i / pieces));
      const std::int64_t first = i % pieces * kChannelsAtOnce;
      const std::int64_t width = std::min(kChannelsAtOnce, x.columns - first);
      if (rows.state == nullptr) {
        SetZero(rows, first, width, x);
      } else {
        Convolve(kernels, taps, rows, first, width, x);
      }
    }
  });
}

void GatedDeltaRule(ThreadPool& pool, const DeltaHeads& heads, const StateBatch& batch,
                    const DeltaInputs& inputs, MatrixView<float> out) {
  CHECK(heads.key_heads >= 1 && heads.value_heads % heads.key_heads == 0);
  CHECK(inputs.queries.columns == heads.key_width() && inputs.keys.columns == heads.key_width());
  CHECK(inputs.values.columns == heads.value_width() && out.columns == heads.value_width());
  CHECK(batch.first_row.size() == batch.states.size() + 1 && batch.first_row.back() == out.rows);
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  const std::int64_t count = static_cast<std::int64_t>(batch.states.size()) * heads.value_heads;
  pool.ParallelFor(count, 1, [&](std::int64_t begin, std::int64_t end, std::int32_t thread) {
    float* const scratch = pool.scratch(thread).Reserve<float>(2 * heads.key_dim);
    for (std::int64_t i = begin; i < end; ++i) {
      const StateRows rows = RowsOf(batch, static_cast<std::size_t>(i / heads.value_heads));
      const std::int64_t head = i % heads.value_heads;
      if (rows.state == nullptr) {
        SetZero(rows, head * heads.value_dim, heads.value_dim, out);
      } else {
        StepHead(kernels, heads, rows, head, inputs, scratch, out);
      }
    }
  });
}

void GateRows(ThreadPool& pool, MatrixView<const float> gates, std::int64_t width,
              std::int64_t apart, MatrixView<float> y) {
  CHECK(gates.rows == y.rows && width >= 1 && y.columns % width == 0);
  const std::int64_t pieces = y.columns / width;
  CHECK((pieces - 1) * apart + width <= gates.columns);
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  ForEachRow(pool, y.rows, y.columns, [&](std::int64_t t) {
    for (std::int64_t p = 0; p < pieces; ++p) {
      kernels.gate_by_sigmoid(gates.Row(t) + p * apart, width, y.Row(t) + p * width);
    }
  });
}

}  // namespace twin::kernels
