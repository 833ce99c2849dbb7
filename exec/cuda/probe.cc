#include "exec/cuda/probe.h"

#include "exec/cuda/cublaslt_provider.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/cuda_library.h"

namespace twin::exec {
namespace {

using kernels::cuda::CudaLibrary;

CudaLibraryStatus Found(const char* name, const char* use, const CudaLibrary& library) {
  return {name, use, library.path(), {.version = "", .reason = library.why()}};
}

CudaLibraryStatus ProbeCublasLt() {
  const std::unique_ptr<kernels::cuda::CublasLtLibrary> library = cuda::FindCublasLt();
  const std::string file = "libcublasLt.so." + std::to_string(ProbeCuda().runtime_version / 1000);
  CudaLibraryStatus status = Found("cuBLASLt", "matrix products", CudaLibrary(file));
  status.found = {.version = library->version(), .reason = library->why()};
  return status;
}

CudaLibraryStatus ProbeNcclFile() {
  const CudaLibrary library("libnccl.so.2");
  CudaLibraryStatus status = Found("NCCL", "several devices", library);
  int code = 0;
  auto* const get_version = library.Find<int(int*)>("ncclGetVersion");
  if (get_version == nullptr || get_version(&code) != 0) return status;
  status.found.version = kernels::cuda::PackedVersionText(code);
  return status;
}

}  // namespace

std::vector<CudaLibraryStatus> ProbeCudaLibraries() { return {ProbeCublasLt(), ProbeNcclFile()}; }

std::vector<std::string> CudaAttentionKernels() {
  constexpr std::int32_t kHopper = 90;
  // A shape that every kernel supports.
  const kernels::cuda::AttentionShape shape{
      .heads = 8, .kv_heads = 8, .head_dim = 128, .block_size = 16, .windows = {0}};
  std::vector<std::string> names;
  for (const AttentionKernel kernel : {AttentionKernel::kGeneric, AttentionKernel::kFa2,
                                       AttentionKernel::kFa3, AttentionKernel::kCudaCore}) {
    if (!WhyNotAttention(kernel, shape, kHopper).empty()) continue;
    names.emplace_back(Name(kernel));
  }
  return names;
}

}  // namespace twin::exec
