#include "run/real/model_device.h"

#include <algorithm>
#include <array>

#include "core/check.h"
#include "core/input_error.h"
#include "exec/device_probe.h"
#include "run/available_memory.h"

namespace twin::run {
namespace {

constexpr std::array kCpuWeights = {DType::kFp32, DType::kBf16, DType::kInt8, DType::kInt4};
constexpr std::array kCudaWeights = {DType::kBf16, DType::kFp8, DType::kInt4};
constexpr std::array kWideFirst = {DType::kFp32, DType::kBf16};
constexpr std::array kNarrowFirst = {DType::kBf16, DType::kFp32};
constexpr std::array kBf16 = {DType::kBf16};

}  // namespace

std::string_view Name(ModelDevice device) { return device == ModelDevice::kCpu ? "cpu" : "cuda"; }

std::span<const DType> WeightFormats(ModelDevice device) {
  if (device == ModelDevice::kCpu) return kCpuWeights;
  return kCudaWeights;
}

std::span<const DType> KvFormats(ModelDevice device, DType weights) {
  if (device == ModelDevice::kCuda) return kBf16;
  if (weights == DType::kFp32) return kWideFirst;
  return kNarrowFirst;
}

std::string NamesOf(std::span<const DType> formats) {
  std::string names;
  for (const DType format : formats) {
    names += (names.empty() ? "" : ", ") + std::string(twin::Name(format));
  }
  return names;
}

void RequireFormat(const std::string& where, DType format, std::span<const DType> formats,
                   ModelDevice device) {
  if (std::find(formats.begin(), formats.end(), format) != formats.end()) return;
  const bool cpu = device == ModelDevice::kCpu;
  throw InputError(InputError::Kind::kUsage, where,
                   "is " + std::string(twin::Name(format)) + ", which " +
                       (cpu ? "a CPU" : "a CUDA device") +
                       " does not compute with here; allowed: " + NamesOf(formats));
}

void RequireModelOptions(const ModelOptions& options, DType weights, ModelDevice device,
                         const ModelOptionNames& names) {
  const bool cuda = device == ModelDevice::kCuda;
  if (options.fp8_fast_accumulation && !(weights == DType::kFp8 && cuda)) {
    throw InputError(InputError::Kind::kUsage, std::string(names.fp8_fast_accumulation),
                     "is for fp8 weights on cuda, and these are " +
                         std::string(twin::Name(weights)) + " on " + std::string(Name(device)) +
                         "; allowed: leave it out");
  }
  if (options.attention_kernel && !cuda) {
    throw InputError(
        InputError::Kind::kUsage, std::string(names.attention_kernel),
        "is for device cuda, and this is " + std::string(Name(device)) + "; allowed: leave it out");
  }
}

void RequireDevice(const std::string& where, ModelDevice device, const std::string& other) {
  if (device == ModelDevice::kCpu) return;
  const exec::CudaStatus cuda = exec::ProbeCuda();
  if (cuda.runtime_version == 0) {
    throw InputError(InputError::Kind::kUsage, where,
                     "asks for CUDA, but " + cuda.reason + "; allowed: " + other);
  }
  if (cuda.usable()) return;
  throw InputError(InputError::Kind::kData, "no GPU", cuda.reason + "; allowed here: " + other);
}

std::int64_t MemoryOf(ModelDevice device) {
  if (device == ModelDevice::kCpu) return AvailableMemory();
  const exec::CudaStatus cuda = exec::ProbeCuda();
  CHECK(cuda.usable());
  const auto smallest =
      std::min_element(cuda.devices.begin(), cuda.devices.end(),
                       [](const auto& a, const auto& b) { return a.total_bytes < b.total_bytes; });
  return smallest->total_bytes;
}

std::int32_t CudaDeviceOf(std::int32_t local_rank) {
  const auto devices = static_cast<std::int32_t>(exec::ProbeCuda().devices.size());
  CHECK(devices > 0);
  return local_rank % devices;
}

}  // namespace twin::run
