#include "kernels/cuda/flashinfer/cuda_core.cuh"
//
#include "kernels/cuda/flashinfer/factories.h"

namespace twin::kernels::cuda {

std::unique_ptr<PlannedAttention> MakeCudaCoreD128(const AttentionShape& shape,
                                                   std::int64_t window) {
  return MakeCudaCore<128>(shape, window);
}

}  // namespace twin::kernels::cuda
