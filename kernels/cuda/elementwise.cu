#include <cmath>

#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/vector_io.cuh"

namespace twin::kernels::cuda {
namespace {

constexpr int kThreads = 256;

template <class T, int kWidth>
__global__ void __launch_bounds__(kThreads)
    AddBiasKernel(const float* bias, DeviceRows<T> y, std::int64_t rows, std::int64_t columns) {
  WaitForEarlierKernels();
  const std::int64_t column = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kWidth;
  if (column >= columns) return;
  float added[kWidth];
  LoadFloats<kWidth>(bias + column, added);
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    T* place = y.Row(row) + column;
    float values[kWidth];
    LoadFloats<kWidth>(place, values);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] += added[i];
    StoreRounded<kWidth>(values, place);
  }
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    FinishLogitsKernel(float scale, float cap, DeviceRows<float> y, std::int64_t rows,
                       std::int64_t columns) {
  WaitForEarlierKernels();
  const std::int64_t column = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kWidth;
  if (column >= columns) return;
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    float* place = y.Row(row) + column;
    float values[kWidth];
    LoadFloats<kWidth>(place, values);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float scaled = scale * values[i];
      values[i] = cap > 0 ? cap * tanhf(scaled / cap) : scaled;
    }
    StoreRounded<kWidth>(values, place);
  }
}

template <class T, int kWidth>
__global__ void __launch_bounds__(kThreads)
    CountNotFiniteKernel(DeviceRows<const T> x, std::int64_t rows, std::int64_t columns,
                         int* count) {
  WaitForEarlierKernels();
  const std::int64_t column = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kWidth;
  int found = 0;
  for (std::int64_t row = blockIdx.y; column < columns && row < rows; row += gridDim.y) {
    float values[kWidth];
    LoadFloats<kWidth>(x.Row(row) + column, values);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) found += fabsf(values[i]) < INFINITY ? 0 : 1;
  }
  if (__any_sync(~0U, found) == 0) return;
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) found += __shfl_xor_sync(~0U, found, lanes);
  if (threadIdx.x % kWarp == 0) atomicAdd(count, found);
}

bool IsEmpty(const DeviceMatrix& matrix) { return matrix.rows == 0 || matrix.columns == 0; }

}  // namespace

void AddBias(StreamView stream, const float* bias, DeviceMatrix y) {
  if (IsEmpty(y)) return;
  WithElement(y.dtype, [&]<class T>(T) {
    constexpr int kWidth = kPackWidth<T>;
    if (IsPacked(y) && IsPacked(bias)) {
      Launch(stream, RowGrid(y.rows, y.columns / kWidth, kThreads), "AddBias",
             &AddBiasKernel<T, kWidth>, bias, RowsOf<T>(y), y.rows, y.columns);
    } else {
      Launch(stream, RowGrid(y.rows, y.columns, kThreads), "AddBias", &AddBiasKernel<T, 1>, bias,
             RowsOf<T>(y), y.rows, y.columns);
    }
  });
}

void FinishLogits(StreamView stream, float scale, float cap, DeviceMatrix y) {
  CHECK(y.dtype == DType::kFp32);
  if (IsEmpty(y)) return;
  constexpr int kWidth = kPackWidth<float>;
  if (IsPacked(y)) {
    Launch(stream, RowGrid(y.rows, y.columns / kWidth, kThreads), "FinishLogits",
           &FinishLogitsKernel<kWidth>, scale, cap, RowsOf<float>(y), y.rows, y.columns);
  } else {
    Launch(stream, RowGrid(y.rows, y.columns, kThreads), "FinishLogits", &FinishLogitsKernel<1>,
           scale, cap, RowsOf<float>(y), y.rows, y.columns);
  }
}

void CountNotFinite(StreamView stream, DeviceMatrix x, int* count) {
  if (IsEmpty(x)) return;
  WithElement(x.dtype, [&]<class T>(T) {
    constexpr int kWidth = kPackWidth<T>;
    if (IsPacked(x)) {
      Launch(stream, RowGrid(x.rows, x.columns / kWidth, kThreads), "CountNotFinite",
             &CountNotFiniteKernel<T, kWidth>, RowsOf<const T>(x), x.rows, x.columns, count);
    } else {
      Launch(stream, RowGrid(x.rows, x.columns, kThreads), "CountNotFinite",
             &CountNotFiniteKernel<T, 1>, RowsOf<const T>(x), x.rows, x.columns, count);
    }
  });
}

}  // namespace twin::kernels::cuda
