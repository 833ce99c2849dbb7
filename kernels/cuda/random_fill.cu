#include "core/hash.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/random_fill.h"
#include "kernels/cuda/vector_io.cuh"

namespace twin::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kBlocksMax = 1 << 16;

// A number uniform in (0, 1], from 24 bits.
__device__ float UnitReal(std::uint64_t bits) {
  return static_cast<float>((bits & 0xFFFFFF) + 1) * 0x1.0p-24F;
}

__device__ float NormalAt(std::uint64_t key, std::uint64_t index) {
  const std::uint64_t bits = MixWords(key, index / 2);
  const float radius = sqrtf(-2.0F * logf(UnitReal(bits)));
  const float angle = 6.283185307F * UnitReal(bits >> 32);
  return radius * (index % 2 == 0 ? cosf(angle) : sinf(angle));
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    FillKernel(RandomNumbers numbers, DeviceRows<T> y, std::int64_t rows, std::int64_t columns) {
  WaitForEarlierKernels();
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t at = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; at < rows * columns;
       at += step) {
    const std::int64_t row = at / columns;
    const std::int64_t column = at % columns;
    const std::uint64_t index = numbers.first + static_cast<std::uint64_t>(row) * numbers.row_step +
                                static_cast<std::uint64_t>(column) * numbers.column_step;
    y.Row(row)[column] = Rounded<T>(numbers.deviation * NormalAt(numbers.key, index));
  }
}

}  // namespace

void FillWithNormals(StreamView stream, const RandomNumbers& numbers, DeviceMatrix y) {
  const std::int64_t elements = y.rows * y.columns;
  if (elements == 0) return;
  const LaunchShape shape{
      dim3(static_cast<unsigned>(std::min((elements + kThreads - 1) / kThreads, kBlocksMax))),
      kThreads};
  WithElement(y.dtype, [&]<class T>(T) {
    Launch(stream, shape, "FillWithNormals", &FillKernel<T>, numbers, RowsOf<T>(y), y.rows,
           y.columns);
  });
}

}  // namespace twin::kernels::cuda
