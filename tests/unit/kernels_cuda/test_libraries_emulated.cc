#include "tests/cuda_emulation/emulated_cublaslt.h"
#include "tests/unit/kernels_cuda/test_libraries.h"

namespace twin::kernels::cuda {

const CublasLtLibrary& TestCublasLt() {
  static const CublasLtLibrary library(cuda_emulation::EmulatedCublasLt());
  return library;
}

std::vector<AttentionKernel> TestedAttentionKernels() { return {AttentionKernel::kGeneric}; }

}  // namespace twin::kernels::cuda
