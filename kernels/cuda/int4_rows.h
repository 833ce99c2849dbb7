// Matrices with weights of 4 bits in device memory.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/thread_pool.h"
#include "kernels/weight_matrix.h"

namespace twin::kernels::cuda {

// Rows of Int4Matrix are multiples of this many columns: 16 bytes.
constexpr std::int64_t kInt4Pack = 32;

// A borrowed matrix in device memory: w[n, k] = (q[n, k] - zeros[n, k / group]) *
// scales[n, k / group], exact in fp32. Two columns share a byte, the even one in its low bits.
struct Int4Matrix {
  const std::uint8_t* q = nullptr;      // [rows, stride / 2]
  const float* scales = nullptr;        // [rows, groups()]
  const std::uint8_t* zeros = nullptr;  // [rows, groups()]
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  // columns from one row to the next, a multiple of kInt4Pack
  std::int64_t group = 0;   // columns, a multiple of kInt4Pack

  [[nodiscard]] std::int64_t groups() const { return (columns + group - 1) / group; }
};

// The arrays of an Int4Matrix on the host.
struct Int4Rows {
  std::vector<std::uint8_t> q;
  std::vector<float> scales;
  std::vector<std::uint8_t> zeros;
  std::int64_t stride = 0;
};
// Converts `weights` to rows with the same numbers. REQUIRES: weights of kInt4, in the order of
// their inputs.
Int4Rows RowsOfInt4(ThreadPool& pool, const WeightView& weights);

}  // namespace twin::kernels::cuda
