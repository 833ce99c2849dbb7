#include "exec/cuda/probe.h"

#include "core/input_error.h"
#include "exec/cuda/state_probe.h"

namespace twin::exec {

std::vector<CudaLibraryStatus> ProbeCudaLibraries() { return {}; }

std::vector<std::string> CudaAttentionKernels() { return {}; }

CudaCeilings MeasureCudaCeilings(std::int32_t /*ordinal*/) {
  throw InputError(InputError::Kind::kUsage, "device", "no GPU: " + ProbeCuda().reason);
}

ProbedDeviceState MeasureDeviceState(std::int32_t /*ordinal*/, const StateOptions& /*options*/) {
  throw InputError(InputError::Kind::kUsage, "device", "no GPU: " + ProbeCuda().reason);
}

std::vector<std::string> Summarize(const ProbedDeviceState& /*state*/) { return {}; }

}  // namespace twin::exec
