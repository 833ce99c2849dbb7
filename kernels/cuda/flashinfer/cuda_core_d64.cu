#include "kernels/cuda/flashinfer/cuda_core.cuh"
//
#include "kernels/cuda/flashinfer/factories.h"

namespace twin::kernels::cuda {

std::unique_ptr<PlannedAttention> MakeCudaCoreD64(const AttentionShape& shape,
                                                  std::int64_t window) {
  return MakeCudaCore<64>(shape, window);
}

}  // namespace twin::kernels::cuda
