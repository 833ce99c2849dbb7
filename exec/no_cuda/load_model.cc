#include "exec/cuda/load_model.h"

#include "core/check.h"
#include "core/input_error.h"
#include "exec/device_probe.h"

namespace twin::exec {

LoadedCudaModel LoadCudaModel(const CudaModelOptions& /*options*/, kernels::ThreadPool& /*pool*/) {
  throw InputError(InputError::Kind::kUsage, "device", "no GPU: " + ProbeCuda().reason);
}

// Never called: a build without CUDA has no model on a device.
std::int64_t MeasureKvBytes(DeviceModel& /*model*/, double /*utilization*/) {
  CHECK(false);
  return 0;
}
std::string DescribeDevice(const DeviceModel& /*model*/) {
  CHECK(false);
  return {};
}

std::filesystem::path DefaultAlgorithmCache() { return {}; }

}  // namespace twin::exec
