#include "kernels/cuda/flashinfer/fa2.cuh"
//
#include "kernels/cuda/flashinfer/factories.h"

namespace twin::kernels::cuda {

std::unique_ptr<PlannedAttention> MakeFa2D256(const AttentionShape& shape, std::int64_t window) {
  return MakeFa2<256>(shape, window);
}

}  // namespace twin::kernels::cuda
