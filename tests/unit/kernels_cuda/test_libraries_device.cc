#include "tests/unit/kernels_cuda/test_libraries.h"

namespace twin::kernels::cuda {

const CublasLtLibrary& TestCublasLt() {
  static const CublasLtLibrary library;
  return library;
}

std::vector<AttentionKernel> TestedAttentionKernels() {
  return {AttentionKernel::kGeneric, AttentionKernel::kFa2, AttentionKernel::kFa3,
          AttentionKernel::kCudaCore};
}

}  // namespace twin::kernels::cuda
