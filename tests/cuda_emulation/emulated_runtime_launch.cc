// Kernels of the emulated runtime.
#include <algorithm>
#include <memory>
#include <utility>

#include "tests/cuda_emulation/emulated_state.h"

namespace twin::cuda_emulation {
namespace {

constexpr std::size_t kSharedBytesUnasked = 48 << 10;
constexpr int kSharedBytesMost = 227 << 10;
constexpr unsigned kThreadsMost = 1024;
constexpr unsigned kBlocksMost = 65535;  // in y and z

bool Fits(const dim3& blocks, const dim3& threads) {
  const std::uint64_t count = std::uint64_t{threads.x} * threads.y * threads.z;
  return count >= 1 && count <= kThreadsMost && threads.z <= 64 && blocks.x >= 1 && blocks.y >= 1 &&
         blocks.z >= 1 && blocks.x <= 0x7FFFFFFFU && blocks.y <= kBlocksMost &&
         blocks.z <= kBlocksMost;
}

void Finish(GridRun& run) {
  const std::string failure = run.Finish();
  State& state = TheState();
  const Lock lock(state.mutex);
  ++state.counts.kernels;
  if (failure.empty()) return;
  state.kernel_failure = failure;
  state.broken = cudaErrorLaunchFailure;
}

// True if the kernel may start before the kernel in front of it has ended.
bool Overlaps(const cudaLaunchConfig_t& config) {
  return std::any_of(config.attrs, config.attrs + config.numAttrs, [](const auto& attribute) {
    return attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization &&
           attribute.val.programmaticStreamSerializationAllowed != 0;
  });
}

Operation RunOf(std::shared_ptr<const Kernel> kernel, bool overlaps) {
  Operation operation([kernel] {
    GridRun run(kernel);
    Finish(run);
  });
  operation.is_kernel = true;
  if (!overlaps) return operation;
  operation.start = [kernel = std::move(kernel)] {
    auto run = std::make_shared<GridRun>(kernel);
    run->StartEarly();
    const Lock lock(TheState().mutex);
    ++TheState().counts.kernels_started_early;
    return [run] { Finish(*run); };
  };
  return operation;
}

}  // namespace

cudaError_t Launch(const cudaLaunchConfig_t& config, const void* function,
                   std::function<void()> kernel) {
  return Call("cudaLaunchKernelEx", [&](Lock&) {
    State& state = TheState();
    const StreamPointer stream = FindStream(config.stream);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (!Fits(config.gridDim, config.blockDim)) return cudaErrorInvalidConfiguration;
    const auto allowed = state.shared_bytes_allowed.find(function);
    if (config.dynamicSmemBytes > kSharedBytesUnasked &&
        (allowed == state.shared_bytes_allowed.end() ||
         config.dynamicSmemBytes > static_cast<std::size_t>(allowed->second))) {
      return cudaErrorInvalidValue;
    }
    state.functions.insert(function);
    state.counts.functions = static_cast<std::int64_t>(state.functions.size());
    const Grid grid{config.gridDim, config.blockDim, config.dynamicSmemBytes};
    return Submit(
        stream, RunOf(std::make_shared<Kernel>(Kernel{grid, std::move(kernel)}), Overlaps(config)));
  });
}

}  // namespace twin::cuda_emulation

using twin::cuda_emulation::Call;
using twin::cuda_emulation::Lock;
using twin::cuda_emulation::TheState;

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return Call(__func__, [&](Lock&) {
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaErrorInvalidValue;
    if (value < 0 || value > twin::cuda_emulation::kSharedBytesMost) return cudaErrorInvalidValue;
    TheState().shared_bytes_allowed[function] = value;
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  return Call(__func__, [&](Lock&) {
    const auto stream = twin::cuda_emulation::FindStream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return twin::cuda_emulation::Submit(stream, [function, argument] { function(argument); });
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads,
                                                          std::size_t shared_bytes) {
  return Call(__func__, [&](Lock&) {
    if (threads < 1 || threads > 1024) return cudaErrorInvalidValue;
    *blocks = 2048 / threads;
    const auto held = static_cast<std::size_t>(twin::cuda_emulation::kSharedBytesMost);
    while (*blocks > 0 && static_cast<std::size_t>(*blocks) * shared_bytes > held) --*blocks;
    return cudaSuccess;
  });
}
