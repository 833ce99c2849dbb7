#include "kernels/cuda/flashinfer/fa3.cuh"
//
#include "kernels/cuda/flashinfer/factories.h"

namespace twin::kernels::cuda {

std::unique_ptr<PlannedAttention> MakeFa3D128(const AttentionShape& shape, std::int64_t window) {
  return MakeFa3<128>(shape, window);
}

}  // namespace twin::kernels::cuda
