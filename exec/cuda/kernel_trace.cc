#include "exec/cuda/kernel_trace.h"

#include <cuda_runtime_api.h>
#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "core/check.h"
#include "core/input_error.h"
#include "kernels/cuda/cuda_library.h"
#include "kernels/cuda/stream.h"

#if __has_include(<cupti_activity.h>)
#include <cupti.h>
#define TWIN_HAS_CUPTI 1
#endif

namespace twin::exec {
namespace {

[[noreturn]] void RefuseTrace(const std::string& why) {
  throw InputError(InputError::Kind::kUsage, "times of kernels", "need CUPTI: " + why);
}

#ifdef TWIN_HAS_CUPTI

using kernels::cuda::DeviceError;

// CUPTI takes a buffer between the first two kernels of a step; a large one would delay the second.
constexpr std::size_t kBufferBytes = std::size_t{256} << 10;
constexpr std::size_t kBufferAlignment = 8;  // required by CUPTI

struct CuptiFunctions {
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
};

std::string FillFunctions(CuptiFunctions& functions) {
  const kernels::cuda::CudaLibrary library("libcupti.so." + std::to_string(CUDART_VERSION / 1000));
  if (!library.open()) return library.why();
  return library.FillTable(functions, [](auto& table, const auto& visit) {
    visit(table.register_callbacks, "cuptiActivityRegisterCallbacks");
    visit(table.enable, "cuptiActivityEnable");
    visit(table.disable, "cuptiActivityDisable");
    visit(table.flush_all, "cuptiActivityFlushAll");
    visit(table.next_record, "cuptiActivityGetNextRecord");
  });
}

std::string Demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : name;
}

// CUPTI calls back on its own thread, and its callbacks take no argument of ours.
struct Collected {
  CuptiFunctions functions;
  std::mutex mutex;
  std::vector<KernelRun> kernels;
};

Collected& TheCollected() {
  static Collected collected;
  return collected;
}

void CUPTIAPI RequestBuffer(std::uint8_t** buffer, std::size_t* size, std::size_t* records_max) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer != nullptr ? kBufferBytes : 0;
  *records_max = 0;  // as many as fit
}

void CUPTIAPI TakeBuffer(CUcontext /*context*/, std::uint32_t /*stream*/, std::uint8_t* buffer,
                         std::size_t /*size*/, std::size_t valid) {
  Collected& collected = TheCollected();
  const std::lock_guard lock(collected.mutex);
  CUpti_Activity* record = nullptr;
  while (valid > 0 && collected.functions.next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto& kernel = *reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    collected.kernels.push_back({.name = kernel.name != nullptr ? kernel.name : "",
                                 .begin_ns = static_cast<std::int64_t>(kernel.start),
                                 .end_ns = static_cast<std::int64_t>(kernel.end)});
  }
  std::free(buffer);
}

#endif

}  // namespace

#ifdef TWIN_HAS_CUPTI

KernelTrace::KernelTrace() {
  Collected& collected = TheCollected();
  const std::string why = FillFunctions(collected.functions);
  if (!why.empty()) RefuseTrace(why);
  if (collected.functions.register_callbacks(&RequestBuffer, &TakeBuffer) != CUPTI_SUCCESS ||
      collected.functions.enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS) {
    RefuseTrace("it does not record kernels here");
  }
}

KernelTrace::~KernelTrace() {
  TheCollected().functions.disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
}

std::vector<KernelRun> KernelTrace::Take() {
  Collected& collected = TheCollected();
  kernels::cuda::CheckCuda(cudaDeviceSynchronize(), "kernels that are traced");
  if (collected.functions.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != CUPTI_SUCCESS) {
    throw DeviceError("a trace of kernels", "CUPTI does not return its records");
  }
  std::vector<KernelRun> kernels;
  {
    const std::lock_guard lock(collected.mutex);
    kernels.swap(collected.kernels);
  }
  std::ranges::sort(kernels, {}, &KernelRun::begin_ns);
  for (KernelRun& kernel : kernels) kernel.name = Demangled(kernel.name.c_str());
  return kernels;
}

#else

KernelTrace::KernelTrace() { RefuseTrace("this build has no headers of it"); }
KernelTrace::~KernelTrace() = default;
std::vector<KernelRun> KernelTrace::Take() { return {}; }

#endif

}  // namespace twin::exec
