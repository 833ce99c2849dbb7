#include <cmath>

#include "kernels/cuda/activation.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/vector_io.cuh"

namespace twin::kernels::cuda {
namespace {

constexpr int kThreads = 256;

template <Activation kActivation>
__device__ __forceinline__ float Activated(float z) {
  if constexpr (kActivation == Activation::kSilu) {
    return z / (1 + expf(-z));
  } else if constexpr (kActivation == Activation::kGelu) {
    constexpr float kRootHalf = 0.70710678118654752F;
    return 0.5F * z * (1 + erff(z * kRootHalf));
  } else if constexpr (kActivation == Activation::kGeluTanh) {
    constexpr float kRootTwoOverPi = 0.79788456080286536F;
    return 0.5F * z * (1 + tanhf(kRootTwoOverPi * (z + 0.044715F * z * z * z)));
  } else {
    return z > 0 || z != z ? z : 0;  // NaN stays NaN
  }
}

template <int kWidth>
__device__ __forceinline__ void AddBiasTo(const float* bias, float (&values)[kWidth]) {
  if (bias == nullptr) return;
  float added[kWidth];
  LoadFloats<kWidth>(bias, added);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) values[i] += added[i];
}

// With kGated, a row of x holds the gate and, `columns` elements further, the up part.
template <int kWidth, Activation kActivation, bool kGated>
__global__ void __launch_bounds__(kThreads)
    ActivateKernel(DeviceRows<const Bf16> x, const float* bias, DeviceRows<Bf16> y,
                   std::int64_t rows, std::int64_t columns) {
  WaitForEarlierKernels();
  const std::int64_t column = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kWidth;
  if (column >= columns) return;
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const Bf16* place = x.Row(row) + column;
    float values[kWidth];
    LoadFloats<kWidth>(place, values);
    float factors[kWidth];
    if constexpr (kGated) LoadFloats<kWidth>(place + columns, factors);
    AddBiasTo<kWidth>(bias == nullptr ? nullptr : bias + column, values);
    if constexpr (kGated) {
      AddBiasTo<kWidth>(bias == nullptr ? nullptr : bias + columns + column, factors);
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      values[i] = Activated<kActivation>(values[i]);
      if constexpr (kGated) values[i] *= factors[i];
    }
    StoreRounded<kWidth>(values, y.Row(row) + column);
  }
}

template <Activation kActivation, bool kGated>
void LaunchActivate(StreamView stream, const DeviceMatrix& x, const float* bias,
                    const DeviceMatrix& y, bool packed) {
  const char* what = kGated ? "ActivateGated" : "Activate";
  constexpr int kWidth = kPackWidth<Bf16>;
  if (packed) {
    Launch(stream, RowGrid(y.rows, y.columns / kWidth, kThreads), what,
           &ActivateKernel<kWidth, kActivation, kGated>, RowsOf<const Bf16>(x), bias,
           RowsOf<Bf16>(y), y.rows, y.columns);
  } else {
    Launch(stream, RowGrid(y.rows, y.columns, kThreads), what,
           &ActivateKernel<1, kActivation, kGated>, RowsOf<const Bf16>(x), bias, RowsOf<Bf16>(y),
           y.rows, y.columns);
  }
}

template <bool kGated>
void Dispatch(StreamView stream, Activation activation, const DeviceMatrix& x, const float* bias,
              const DeviceMatrix& y) {
  CHECK(x.dtype == y.dtype && x.rows == y.rows);
  if (y.rows == 0 || y.columns == 0) return;
  const bool packed = IsPacked(x) && IsPacked(y) && IsPacked(bias);
  CHECK(y.dtype == DType::kBf16);
  switch (activation) {
    case Activation::kSilu:
      return LaunchActivate<Activation::kSilu, kGated>(stream, x, bias, y, packed);
    case Activation::kGelu:
      return LaunchActivate<Activation::kGelu, kGated>(stream, x, bias, y, packed);
    case Activation::kGeluTanh:
      return LaunchActivate<Activation::kGeluTanh, kGated>(stream, x, bias, y, packed);
    case Activation::kRelu:
      return LaunchActivate<Activation::kRelu, kGated>(stream, x, bias, y, packed);
  }
}

}  // namespace

void Activate(StreamView stream, Activation activation, DeviceMatrix x, const float* bias,
              DeviceMatrix y) {
  CHECK(x.columns == y.columns);
  Dispatch<false>(stream, activation, x, bias, y);
}

void ActivateGated(StreamView stream, Activation activation, DeviceMatrix gate_up,
                   const float* bias, DeviceMatrix y) {
  CHECK(gate_up.columns == 2 * y.columns);
  Dispatch<true>(stream, activation, gate_up, bias, y);
}

}  // namespace twin::kernels::cuda
