#include "kernels/cuda/flashinfer/fa2.cuh"
//
#include "kernels/cuda/flashinfer/factories.h"

namespace twin::kernels::cuda {

std::unique_ptr<PlannedAttention> MakeFa2D128(const AttentionShape& shape, std::int64_t window) {
  return MakeFa2<128>(shape, window);
}

}  // namespace twin::kernels::cuda
