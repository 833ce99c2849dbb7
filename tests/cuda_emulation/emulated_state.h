// What the emulated runtime keeps of its devices, and what its functions have in common.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/cuda_emulation/block.h"
#include "tests/cuda_emulation/emulated_device.h"
#include "tests/cuda_emulation/emulated_stream.h"

// The types behind the runtime's handles.
struct CUstream_st {
  twin::cuda_emulation::StreamPointer stream;
};
struct CUevent_st {
  twin::cuda_emulation::EventPointer event;
};
struct CUgraph_st {
  std::vector<twin::cuda_emulation::GraphPart> parts;
};
struct CUgraphExec_st {
  std::vector<twin::cuda_emulation::GraphPart> parts;
};

namespace twin::cuda_emulation {

enum class MemoryKind { kDevice, kPinned };

struct Allocation {
  std::size_t bytes = 0;
  MemoryKind kind = MemoryKind::kDevice;
  int device = 0;
};

struct PlannedFailure {
  int calls_left = 0;
  cudaError_t error = cudaSuccess;
};

// All members but `mutex` are guarded by it. Operations of streams run without it.
struct State {
  std::mutex mutex;
  DeviceOptions options;
  DeviceCounts counts;
  std::map<std::string, std::int64_t, std::less<>> calls;
  std::map<std::string, PlannedFailure, std::less<>> failures;
  cudaError_t broken = cudaSuccess;
  bool hangs = false;
  std::string kernel_failure;
  std::map<const std::byte*, Allocation> allocations;
  std::map<int, std::size_t> bytes_in_use;       // of a device
  std::map<int, StreamPointer> default_streams;  // of a device
  std::map<CUstream_st*, std::unique_ptr<CUstream_st>> streams;
  std::map<CUevent_st*, std::unique_ptr<CUevent_st>> events;
  std::map<CUgraph_st*, std::unique_ptr<CUgraph_st>> graphs;
  std::map<CUgraphExec_st*, std::unique_ptr<CUgraphExec_st>> executables;
  std::set<std::shared_ptr<Capture>> captures;
  std::map<const void*, int> shared_bytes_allowed;  // of kernels: cudaFuncSetAttribute
  std::set<const void*> functions;                  // kernels that were launched
};
State& TheState();

// The device of the calling thread.
int& CurrentDevice();

using Lock = std::unique_lock<std::mutex>;

// Every function of the runtime: counts the call, fails if it is to, else does `body(lock)` with
// the state locked, and keeps the last error.
cudaError_t Call(const char* function, const std::function<cudaError_t(Lock&)>& body);
// The thread's last error (cudaGetLastError).
cudaError_t& LastError();

// The stream of a handle; null: the device's default one. Null if there is none. REQUIRES: locked.
StreamPointer FindStream(cudaStream_t handle);
// Gives a stream an operation, or its capture a part. REQUIRES: locked.
cudaError_t Submit(const StreamPointer& stream, Operation operation);
// Invalidates what forbids the calling thread a call that a capture may not have beside it.
// REQUIRES: locked.
cudaError_t CheckAllowedBesideCaptures();
// Carries out what the streams of the calling thread's device were given. Unlocks meanwhile.
void DrainDevice(Lock& lock);
// Success, or what broke the device meanwhile. REQUIRES: locked.
cudaError_t Outcome();

// The allocation that holds all these bytes, or null. REQUIRES: locked.
const Allocation* FindAllocation(const void* memory, std::size_t bytes);

// Launches a kernel; `kernel` runs one thread of it. `function` names it.
cudaError_t Launch(const cudaLaunchConfig_t& config, const void* function,
                   std::function<void()> kernel);

}  // namespace twin::cuda_emulation
