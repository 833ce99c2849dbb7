#include "core/check.h"
#include "kernels/cuda/flashinfer/factories.h"

namespace twin::kernels::cuda {
namespace {

std::unique_ptr<PlannedAttention> MakeFa3(const AttentionShape& shape, std::int64_t window) {
#ifdef TWIN_FLASHINFER_FA3
  return shape.head_dim == 64 ? MakeFa3D64(shape, window) : MakeFa3D128(shape, window);
#else
  static_cast<void>(shape), static_cast<void>(window);
  return nullptr;
#endif
}

std::unique_ptr<PlannedAttention> MakeFa2(const AttentionShape& shape, std::int64_t window) {
  switch (shape.head_dim) {
    case 64:
      return MakeFa2D64(shape, window);
    case 128:
      return MakeFa2D128(shape, window);
    default:
      return MakeFa2D256(shape, window);
  }
}

}  // namespace

FlashInferBuild BuiltWithFlashInfer() {
  FlashInferBuild build{.fa2 = true, .version = TWIN_FLASHINFER_VERSION};
#ifdef TWIN_FLASHINFER_FA3
  build.fa3 = true;
#endif
  return build;
}

std::unique_ptr<PlannedAttention> MakePlannedAttention(AttentionKernel kernel,
                                                       const AttentionShape& shape,
                                                       std::int64_t window) {
  std::unique_ptr<PlannedAttention> attention;
  if (kernel == AttentionKernel::kFa2) attention = MakeFa2(shape, window);
  if (kernel == AttentionKernel::kFa3) attention = MakeFa3(shape, window);
  if (kernel == AttentionKernel::kCudaCore) {
    attention =
        shape.head_dim == 64 ? MakeCudaCoreD64(shape, window) : MakeCudaCoreD128(shape, window);
  }
  CHECK(attention != nullptr);
  return attention;
}

}  // namespace twin::kernels::cuda
