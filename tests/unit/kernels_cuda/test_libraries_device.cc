#include "tests/unit/kernels_cuda/test_libraries.h"

namespace twin::kernels::cuda {

const CublasLtLibrary& TestCublasLt() {
  static const CublasLtLibrary library;
  return library;
}

}  // namespace twin::kernels::cuda
