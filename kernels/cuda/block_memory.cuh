// Memory that the threads of a block share.
#pragma once

namespace twin::kernels::cuda {

// One variable of the type in a block, whoever asks; not initialised.
template <class Layout>
__device__ __forceinline__ Layout& BlockShared() {
  __shared__ Layout memory;
  return memory;
}

// The bytes that the launch asked for, 16-byte aligned; not initialised.
template <class T>
__device__ __forceinline__ T* DynamicShared() {
  extern __shared__ __align__(16) unsigned char memory[];
  return reinterpret_cast<T*>(memory);
}

}  // namespace twin::kernels::cuda
