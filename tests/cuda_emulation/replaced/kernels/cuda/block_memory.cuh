// Shared memory of a block, in the emulation; stands in for kernels/cuda/block_memory.cuh.
#pragma once

#include "tests/cuda_emulation/block.h"

namespace twin::kernels::cuda {

template <class Layout>
Layout& BlockShared() {
  static const char key = 0;
  auto* memory = ::twin::cuda_emulation::Block::Current().Shared(&key, sizeof(Layout));
  return *reinterpret_cast<Layout*>(memory);
}

template <class T>
T* DynamicShared() {
  return reinterpret_cast<T*>(::twin::cuda_emulation::Block::Current().DynamicShared());
}

}  // namespace twin::kernels::cuda
