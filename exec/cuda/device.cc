#include "exec/cuda/device.h"

#include <cuda_runtime_api.h>

#include "core/input_error.h"
#include "exec/cuda/cublaslt_provider.h"
#include "exec/device_probe.h"

namespace twin::exec::cuda {
namespace {

constexpr std::int32_t kOldestCapability = 80;

[[noreturn]] void Refuse(const std::string& what) {
  throw InputError(InputError::Kind::kUsage, "device", what);
}

// The properties of a device that this build can compute on.
CudaDevice UsableDevice(std::int32_t ordinal) {
  const CudaStatus status = ProbeCuda();
  if (!status.usable()) Refuse("no GPU: " + status.reason);
  const auto count = static_cast<std::int32_t>(status.devices.size());
  if (ordinal >= count) {
    Refuse("there is no CUDA device " + std::to_string(ordinal) + "; allowed: 0 to " +
           std::to_string(count - 1));
  }
  const CudaDevice& device = status.devices[static_cast<std::size_t>(ordinal)];
  const std::int32_t capability = device.compute_major * 10 + device.compute_minor;
  // Code for 8.0 runs on all 8.x. Code for 9.0 uses instructions that only 9.0 has.
  if (capability < kOldestCapability || (capability > 90) ||
      (device.compute_major != 8 && capability != 90)) {
    Refuse(device.name + " has compute capability " + std::to_string(device.compute_major) + "." +
           std::to_string(device.compute_minor) +
           ", for which this build has no code; allowed: " + "8.0 to 8.9, and 9.0");
  }
  return device;
}

}  // namespace

Device::Device(std::int32_t ordinal, const std::filesystem::path& algorithm_cache)
    : ordinal_(ordinal) {
  const CudaDevice device = UsableDevice(ordinal);
  name_ = device.name;
  compute_capability_ = device.compute_major * 10 + device.compute_minor;
  library_ = FindCublasLt();
  if (!library_->usable()) Refuse("is CUDA, which needs cuBLASLt: " + library_->why());
  Use();
  compute_ = std::make_unique<Stream>(Stream::Priority::kHigh);
  swap_ = std::make_unique<Stream>();
  gemm_ = std::make_unique<kernels::cuda::Gemm>(*library_, algorithm_cache);
  description_ = name_ + ", " + std::to_string(device.total_bytes / 1'000'000'000) +
                 " GB, compute capability " + std::to_string(device.compute_major) + "." +
                 std::to_string(device.compute_minor) + ", cuBLASLt " + library_->version();
}

Device::~Device() = default;

bool Device::multiplies_fp8() const {
  // Only this device multiplies with a scale for each row.
  constexpr std::int32_t kHopper = 90;
  return compute_capability_ == kHopper;
}

void Device::Use() const { CheckCuda(cudaSetDevice(ordinal_), "cudaSetDevice"); }

}  // namespace twin::exec::cuda
