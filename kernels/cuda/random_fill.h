// Fills matrices with random numbers on a device. CPU twin: exec's dummy weights.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

// Maps a random sequence to a matrix: element (i, j) is number first + i * row_step +
// j * column_step of the sequence.
struct RandomNumbers {
  std::uint64_t key = 0;  // selects the sequence
  std::uint64_t first = 0;
  std::uint64_t row_step = 0;
  std::uint64_t column_step = 1;
  float deviation = 1;
};

// Fills y with normally distributed numbers of mean 0 and standard deviation numbers.deviation.
// Number n of key k equals that of DummySource (Box-Muller on MixWords(k, n / 2)) within
// 4e-6 * deviation before rounding to the format of y (bf16 or fp32).
void FillWithNormals(StreamView stream, const RandomNumbers& numbers, DeviceMatrix y);

}  // namespace twin::kernels::cuda
