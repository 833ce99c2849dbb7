// Devices and errors of the emulated runtime.
#include <algorithm>
#include <cstring>

#include "tests/cuda_emulation/emulated_state.h"

// The names of the runtime's functions are its own.
using namespace twin::cuda_emulation;  // NOLINT(google-build-using-namespace)

cudaError_t cudaGetDeviceCount(int* count) {
  return Call(__func__, [&](Lock&) {
    *count = TheState().options.devices;
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaSetDevice(int device) {
  return Call(__func__, [&](Lock&) {
    if (device < 0 || device >= TheState().options.devices) return cudaErrorInvalidDevice;
    CurrentDevice() = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return Call(__func__, [&](Lock&) {
    *device = CurrentDevice();
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return Call(__func__, [&](Lock&) {
    const DeviceOptions& options = TheState().options;
    if (device < 0 || device >= options.devices) return cudaErrorInvalidDevice;
    *properties = {};
    options.name.copy(properties->name, sizeof(properties->name) - 1);
    properties->totalGlobalMem = options.memory_bytes;
    properties->multiProcessorCount = options.multiprocessors;
    properties->major = options.compute_capability / 10;
    properties->minor = options.compute_capability % 10;
    properties->warpSize = static_cast<int>(kWarpSize);
    properties->maxThreadsPerBlock = 1024;
    properties->sharedMemPerBlock = 48 << 10;
    properties->sharedMemPerBlockOptin = 227 << 10;
    properties->sharedMemPerMultiprocessor = 228 << 10;
    properties->regsPerMultiprocessor = 64 << 10;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->l2CacheSize = 1 << 20;
    properties->memoryBusWidth = 64;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return Call(__func__, [&](Lock&) {
    const DeviceOptions& options = TheState().options;
    if (device < 0 || device >= options.devices) return cudaErrorInvalidDevice;
    switch (attribute) {
      case cudaDevAttrMultiProcessorCount:
        *value = options.multiprocessors;
        return cudaSuccess;
      case cudaDevAttrComputeCapabilityMajor:
        *value = options.compute_capability / 10;
        return cudaSuccess;
      case cudaDevAttrComputeCapabilityMinor:
        *value = options.compute_capability % 10;
        return cudaSuccess;
      case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = 227 << 10;
        return cudaSuccess;
      case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = 228 << 10;
        return cudaSuccess;
      case cudaDevAttrL2CacheSize:
        *value = 1 << 20;
        return cudaSuccess;
      case cudaDevAttrMemoryClockRate:
      case cudaDevAttrClockRate:
        *value = 1'000'000;  // kHz
        return cudaSuccess;
      case cudaDevAttrGlobalMemoryBusWidth:
        *value = 64;
        return cudaSuccess;
      default:
        return cudaErrorInvalidValue;
    }
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return Call(__func__, [&](Lock&) {
    if (device < 0 || device >= TheState().options.devices) return cudaErrorInvalidDevice;
    const std::string id = "0000:0" + std::to_string(device) + ":00.0";
    if (length <= static_cast<int>(id.size())) return cudaErrorInvalidValue;
    std::copy_n(id.c_str(), id.size() + 1, text);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return Call(__func__, [&](Lock&) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return Call(__func__, [&](Lock& lock) {
    if (const cudaError_t error = CheckAllowedBesideCaptures()) return error;
    ++TheState().counts.synchronisations;
    DrainDevice(lock);
    return Outcome();
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return Call(__func__, [&](Lock&) {
    *version = TheState().options.devices > 0 ? CUDART_VERSION : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return Call(__func__, [&](Lock&) {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = LastError();
  LastError() = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() { return LastError(); }

namespace {

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrorTexts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
     "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
};

const ErrorText& TextOf(cudaError_t error) {
  static constexpr ErrorText kUnknown = {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"};
  for (const ErrorText& text : kErrorTexts) {
    if (text.error == error) return text;
  }
  return kUnknown;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) { return TextOf(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return TextOf(error).text; }
