// Where a device's cuBLASLt comes from: the machine, or in tests an emulation.
#pragma once

#include <memory>

#include "kernels/cuda/cublaslt_library.h"

namespace twin::exec::cuda {

using CublasLtFinder = std::unique_ptr<kernels::cuda::CublasLtLibrary> (*)();

// By default opens the machine's. May be unusable, and then says why.
std::unique_ptr<kernels::cuda::CublasLtLibrary> FindCublasLt();

// For tests: how it is found from now on.
void SetCublasLtFinder(CublasLtFinder finder);

}  // namespace twin::exec::cuda
