#include "exec/cuda/probe.h"

#include "core/input_error.h"

namespace twin::exec {

std::vector<CudaLibraryStatus> ProbeCudaLibraries() { return {}; }

std::vector<std::string> CudaAttentionKernels() { return {}; }

CudaCeilings MeasureCudaCeilings(std::int32_t /*ordinal*/) {
  throw InputError(InputError::Kind::kUsage, "device", "no GPU: " + ProbeCuda().reason);
}

}  // namespace twin::exec
