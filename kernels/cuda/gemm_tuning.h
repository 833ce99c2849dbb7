// Measuring which algorithm computes a product the fastest.
#pragma once

#include "kernels/cuda/cublaslt_product.h"
#include "kernels/cuda/gemm_algorithms.h"

namespace twin::kernels::cuda {

// Runs up to `candidates` of cuBLASLt's suggestions for the shape, and SkinnyGemm where it takes
// the shape, on random operands whose weights come from memory, not from cache. The candidates take
// turns, so that a change of clocks meets all of them; the median of a candidate's turns counts.
// Waits for the stream. Throws DeviceError.
GemmAlgorithm FastestGemm(const CublasLtContext& context, StreamView stream, const GemmShape& shape,
                          int candidates);

}  // namespace twin::kernels::cuda
