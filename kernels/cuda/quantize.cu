#include <cuda_fp8.h>

#include <cmath>

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/quantize.h"
#include "kernels/cuda/vector_io.cuh"

namespace twin::kernels::cuda {
namespace {

constexpr int kThreadsMax = 1024;

using Fp8 = __nv_fp8_storage_t;

struct QuantizeArguments {
  DeviceRows<const Bf16> x;
  DeviceRows<Fp8> y;
  float* scales = nullptr;
  std::int64_t columns = 0;  // of x
  std::int64_t width = 0;    // of y
};

template <int kWidth>
__device__ __forceinline__ void StoreFp8(const float (&values)[kWidth], float factor, Fp8* place) {
  Pack<Fp8, kWidth> pack;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    pack.values[i] = __nv_cvt_float_to_fp8(values[i] * factor, __NV_SATFINITE, __NV_E4M3);
  }
  *reinterpret_cast<Pack<Fp8, kWidth>*>(place) = pack;
}

template <int kWidth>
__global__ void __launch_bounds__(kThreadsMax) QuantizeKernel(QuantizeArguments arguments) {
  WaitForEarlierKernels();
  const std::int64_t row = blockIdx.x;
  const Bf16* const from = arguments.x.Row(row);
  Fp8* const to = arguments.y.Row(row);
  const std::int64_t first = std::int64_t{threadIdx.x} * kWidth;
  const std::int64_t step = std::int64_t{blockDim.x} * kWidth;
  float values[kWidth];
  float largest = 0;
  for (std::int64_t column = first; column < arguments.columns; column += step) {
    LoadFloats<kWidth>(from + column, values);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) largest = fmaxf(largest, fabsf(values[i]));
  }
  largest = fmaxf(BlockMax(largest), kQuantizedMin);
  const float factor = kFp8Max / largest;
  if (threadIdx.x == 0) arguments.scales[row] = largest / kFp8Max;
  for (std::int64_t column = first; column < arguments.width; column += step) {
    if (column < arguments.columns) {
      LoadFloats<kWidth>(from + column, values);
    } else {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) values[i] = 0;
    }
    StoreFp8<kWidth>(values, factor, to + column);
  }
}

}  // namespace

void QuantizeRows(StreamView stream, DeviceMatrix x, ScaledMatrix y) {
  const DeviceMatrix& to = y.values;
  CHECK(to.dtype == DType::kFp8 && to.rows == x.rows && to.columns >= x.columns);
  if (x.rows == 0) return;
  CHECK(y.scales != nullptr);
  CHECK(x.dtype == DType::kBf16);
  constexpr int kWidth = kPackWidth<Bf16>;
  const QuantizeArguments arguments{.x = RowsOf<const Bf16>(x),
                                    .y = RowsOf<Fp8>(to),
                                    .scales = y.scales,
                                    .columns = x.columns,
                                    .width = to.columns};
  // Rows of x and y consist of whole packs, so that no pack contains both elements and padding.
  const bool packed = IsPacked(x) && IsPacked(to);
  LaunchShape shape = RowGrid(1, packed ? to.columns / kWidth : to.columns, kThreadsMax);
  shape.blocks = dim3(static_cast<unsigned>(x.rows));
  if (packed) {
    Launch(stream, shape, "QuantizeRows", &QuantizeKernel<kWidth>, arguments);
  } else {
    Launch(stream, shape, "QuantizeRows", &QuantizeKernel<1>, arguments);
  }
}

}  // namespace twin::kernels::cuda
