// The kernels of FlashInfer, one source for each kind and head size, as each takes long to compile.
#pragma once

#include <memory>

#include "kernels/cuda/flashinfer/planned_attention.h"

namespace twin::kernels::cuda {

std::unique_ptr<PlannedAttention> MakeFa2D64(const AttentionShape& shape, std::int64_t window);
std::unique_ptr<PlannedAttention> MakeFa2D128(const AttentionShape& shape, std::int64_t window);
std::unique_ptr<PlannedAttention> MakeFa2D256(const AttentionShape& shape, std::int64_t window);
std::unique_ptr<PlannedAttention> MakeCudaCoreD64(const AttentionShape& shape, std::int64_t window);
std::unique_ptr<PlannedAttention> MakeCudaCoreD128(const AttentionShape& shape,
                                                   std::int64_t window);
std::unique_ptr<PlannedAttention> MakeFa3D64(const AttentionShape& shape, std::int64_t window);
std::unique_ptr<PlannedAttention> MakeFa3D128(const AttentionShape& shape, std::int64_t window);

}  // namespace twin::kernels::cuda
