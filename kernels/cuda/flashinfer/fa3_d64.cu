#include "kernels/cuda/flashinfer/fa3.cuh"
//
#include "kernels/cuda/flashinfer/factories.h"

namespace twin::kernels::cuda {

std::unique_ptr<PlannedAttention> MakeFa3D64(const AttentionShape& shape, std::int64_t window) {
  return MakeFa3<64>(shape, window);
}

}  // namespace twin::kernels::cuda
