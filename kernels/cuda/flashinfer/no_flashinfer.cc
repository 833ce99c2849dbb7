#include "core/check.h"
#include "kernels/cuda/flashinfer/planned_attention.h"

namespace twin::kernels::cuda {

FlashInferBuild BuiltWithFlashInfer() { return {}; }

std::unique_ptr<PlannedAttention> MakePlannedAttention(AttentionKernel, const AttentionShape&,
                                                       std::int64_t) {
  CHECK(false && "a build without FlashInfer plans no attention");
  return nullptr;
}

}  // namespace twin::kernels::cuda
