#include "exec/cuda/cublaslt_provider.h"

#include <atomic>

namespace twin::exec::cuda {
namespace {

std::atomic<CublasLtFinder> cublaslt_finder{nullptr};

}  // namespace

std::unique_ptr<kernels::cuda::CublasLtLibrary> FindCublasLt() {
  const CublasLtFinder finder = cublaslt_finder;
  return finder != nullptr ? finder() : std::make_unique<kernels::cuda::CublasLtLibrary>();
}

void SetCublasLtFinder(CublasLtFinder finder) { cublaslt_finder = finder; }

}  // namespace twin::exec::cuda
