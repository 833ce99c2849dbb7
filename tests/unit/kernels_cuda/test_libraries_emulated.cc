#include "tests/cuda_emulation/emulated_cublaslt.h"
#include "tests/unit/kernels_cuda/test_libraries.h"

namespace twin::kernels::cuda {

const CublasLtLibrary& TestCublasLt() {
  static const CublasLtLibrary library(cuda_emulation::EmulatedCublasLt());
  return library;
}

}  // namespace twin::kernels::cuda
