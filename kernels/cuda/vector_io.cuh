// Conversions between element formats and fp32, and vectorised loads and stores of 16 bytes.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "core/check.h"
#include "kernels/cuda/device_matrix.h"

namespace twin::kernels::cuda {

// The element of activations, of the cache, and of weights that are not quantized.
using Bf16 = __nv_bfloat16;

__device__ __forceinline__ float ToFloat(float value) { return value; }
__device__ __forceinline__ float ToFloat(Bf16 value) { return __bfloat162float(value); }

// Rounds to nearest, ties to even.
template <class T>
__device__ __forceinline__ T Rounded(float value);
template <>
__device__ __forceinline__ float Rounded<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ Bf16 Rounded<Bf16>(float value) {
  return __float2bfloat16_rn(value);
}

// kWidth elements that are loaded and stored with one instruction.
template <class T, int kWidth>
struct alignas(kWidth * sizeof(T)) Pack {
  T values[kWidth];
};

constexpr int kPackBytes = 16;
// Number of elements in a pack of 16 bytes.
template <class T>
constexpr int kPackWidth = kPackBytes / static_cast<int>(sizeof(T));

template <int kWidth, class T>
__device__ __forceinline__ Pack<T, kWidth> Load(const T* place) {
  return *reinterpret_cast<const Pack<T, kWidth>*>(place);
}

// Loads kWidth elements as fp32. Takes several loads if they exceed 16 bytes, for example two loads
// for 8 elements of fp32.
template <int kWidth, class T>
__device__ __forceinline__ void LoadFloats(const T* place, float (&values)[kWidth]) {
  constexpr int kStep = kWidth < kPackWidth<T> ? kWidth : kPackWidth<T>;
#pragma unroll
  for (int first = 0; first < kWidth; first += kStep) {
    const Pack<T, kStep> pack = Load<kStep>(place + first);
#pragma unroll
    for (int i = 0; i < kStep; ++i) values[first + i] = ToFloat(pack.values[i]);
  }
}

template <int kWidth, class T>
__device__ __forceinline__ void StoreRounded(const float (&values)[kWidth], T* place) {
  constexpr int kStep = kWidth < kPackWidth<T> ? kWidth : kPackWidth<T>;
#pragma unroll
  for (int first = 0; first < kWidth; first += kStep) {
    Pack<T, kStep> pack;
#pragma unroll
    for (int i = 0; i < kStep; ++i) pack.values[i] = Rounded<T>(values[first + i]);
    *reinterpret_cast<Pack<T, kStep>*>(place + first) = pack;
  }
}

// A matrix as a kernel parameter. `stride` counts elements.
template <class T>
struct DeviceRows {
  T* data = nullptr;
  std::int64_t stride = 0;

  __device__ __forceinline__ T* Row(std::int64_t i) const { return data + i * stride; }
};

template <class T>
DeviceRows<T> RowsOf(const DeviceMatrix& matrix) {
  return {matrix.As<T>(), matrix.stride};
}

// True if packs of 16 bytes can be loaded from the pointer, that is, it is aligned.
inline bool IsPacked(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % kPackBytes == 0;
}
// True if all rows consist of whole packs.
inline bool IsPacked(const DeviceMatrix& matrix) {
  const std::int64_t bytes = ByteSize(matrix.dtype);
  return IsPacked(matrix.data) && matrix.stride * bytes % kPackBytes == 0 &&
         matrix.columns * bytes % kPackBytes == 0;
}

// Calls body(T{}) with the element type of kBf16 or kFp32.
template <class Body>
void WithElement(DType dtype, const Body& body) {
  CHECK(dtype == DType::kBf16 || dtype == DType::kFp32);
  if (dtype == DType::kFp32) {
    body(float{});
  } else {
    body(Bf16{});
  }
}

}  // namespace twin::kernels::cuda
