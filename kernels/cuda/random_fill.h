// Random numbers made on a device. CPU twin: exec's dummy weights.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

// Which element of a stream of random numbers lies where: element (i, j) of the matrix is number
// first + i * row_step + j * column_step.
struct RandomNumbers {
  std::uint64_t key = 0;  // of the stream
  std::uint64_t first = 0;
  std::uint64_t row_step = 0;
  std::uint64_t column_step = 1;
  float deviation = 1;
};

// y = normal numbers of mean 0: number n of key k is that of DummySource (Box and Muller on
// MixWords(k, n / 2)), up to 4e-6 * deviation before rounding to the format (bf16, fp16 or fp32).
void FillWithNormals(StreamView stream, const RandomNumbers& numbers, DeviceMatrix y);

}  // namespace twin::kernels::cuda
