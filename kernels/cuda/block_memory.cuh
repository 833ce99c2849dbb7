// Shared memory of a block: static variables and the dynamic part.
#pragma once

namespace twin::kernels::cuda {

// A variable of type Layout in shared memory, uninitialised. All calls with the same type in a
// kernel return the same variable.
template <class Layout>
__device__ __forceinline__ Layout& BlockShared() {
  __shared__ Layout memory;
  return memory;
}

// The dynamic shared memory of the launch, aligned to 16 bytes, uninitialised.
template <class T>
__device__ __forceinline__ T* DynamicShared() {
  extern __shared__ __align__(16) unsigned char memory[];
  return reinterpret_cast<T*>(memory);
}

}  // namespace twin::kernels::cuda
