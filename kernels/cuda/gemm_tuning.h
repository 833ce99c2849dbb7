// Autotuning of matrix products: measures the algorithms for a shape and picks the fastest.
#pragma once

#include "kernels/cuda/cublaslt_product.h"
#include "kernels/cuda/gemm_algorithms.h"

namespace twin::kernels::cuda {

// Measures up to `candidates` suggestions of cuBLASLt, and SkinnyGemm if it supports the shape. The
// operands are random, and the weights are read from memory, not from cache. The candidates run in
// several interleaved rounds, so that a change of clock rates affects all of them, and are compared
// by the median of their rounds. A candidate that cuBLASLt refuses is left out. Waits for the
// stream. Throws DeviceError if none is left, or if a kernel fails.
GemmAlgorithm FastestGemm(const CublasLtContext& context, StreamView stream,
                          const DeviceGemmShape& shape, int candidates);

}  // namespace twin::kernels::cuda
