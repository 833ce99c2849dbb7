// Finds cuBLASLt. Tests replace it by an emulation.
#pragma once

#include <memory>

#include "kernels/cuda/cublaslt_library.h"

namespace twin::exec::cuda {

using CublasLtFinder = std::unique_ptr<kernels::cuda::CublasLtLibrary> (*)();

// Finds cuBLASLt. By default opens the installed library. The result may be unusable; why() then
// gives the reason.
std::unique_ptr<kernels::cuda::CublasLtLibrary> FindCublasLt();

// For tests: replaces the function that FindCublasLt() calls.
void SetCublasLtFinder(CublasLtFinder finder);

}  // namespace twin::exec::cuda
