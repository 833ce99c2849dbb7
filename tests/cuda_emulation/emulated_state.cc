#include "tests/cuda_emulation/emulated_state.h"

#include <cstdlib>
#include <set>
#include <string_view>
#include <utility>

namespace twin::cuda_emulation {

namespace {

// Functions that wait for the work of a device.
const std::set<std::string_view> kBlocking = {"cudaDeviceSynchronize",
                                              "cudaStreamSynchronize",
                                              "cudaEventSynchronize",
                                              "cudaStreamDestroy",
                                              "cudaFree",
                                              "cudaFreeHost",
                                              "cudaMemcpy"};

// Errors behind which, as CUDA's reference says of them, every later call of the process fails.
bool EndsTheContext(cudaError_t error) {
  return error == cudaErrorIllegalAddress || error == cudaErrorLaunchFailure;
}

}  // namespace

State& TheState() {
  // Never destroyed: a device behind an error keeps its memory, and sanitizers still reach it.
  static State& state = *new State;
  return state;
}

int& CurrentDevice() {
  static thread_local int device = 0;
  return device;
}

cudaError_t& LastError() {
  static thread_local cudaError_t error = cudaSuccess;
  return error;
}

cudaError_t Call(const char* function, const std::function<cudaError_t(Lock&)>& body) {
  State& state = TheState();
  Lock lock(state.mutex);
  ++state.calls[function];
  if (state.hangs) {
    const std::string_view name = function;
    if (name == "cudaStreamQuery") return cudaErrorNotReady;
    if (kBlocking.contains(name)) ++state.counts.blocked_for_ever;
  }
  cudaError_t error = state.broken;
  const auto planned = state.failures.find(function);
  if (planned != state.failures.end() && --planned->second.calls_left == 0) {
    error = planned->second.error;
    state.failures.erase(planned);
    if (EndsTheContext(error)) state.broken = error;
  }
  if (error == cudaSuccess) error = body(lock);
  if (error != cudaSuccess && error != cudaErrorNotReady) LastError() = error;
  return error;
}

StreamPointer FindStream(cudaStream_t handle) {
  State& state = TheState();
  if (handle == nullptr || handle == cudaStreamLegacy) {
    StreamPointer& stream = state.default_streams[CurrentDevice()];
    if (stream == nullptr) {
      stream = std::make_shared<Stream>();
      stream->device = CurrentDevice();
    }
    return stream;
  }
  const auto found = state.streams.find(handle);
  return found == state.streams.end() ? nullptr : found->second->stream;
}

namespace {

void WaitFor(const StreamPointer& stream, const StreamPointer& other) {
  if (const std::uint64_t number = other->enqueued(); number > 0) {
    stream->Enqueue([weak = std::weak_ptr(other), number] {
      if (const StreamPointer alive = weak.lock()) alive->DrainTo(number);
    });
  }
}

// The default stream and blocking ones run one after the other.
cudaError_t OrderWithDefaultStream(const StreamPointer& stream) {
  State& state = TheState();
  const auto found = state.default_streams.find(stream->device);
  if (found == state.default_streams.end() || !stream->blocking) return cudaSuccess;
  if (stream != found->second) {
    WaitFor(stream, found->second);
    return cudaSuccess;
  }
  for (const auto& [handle, owner] : state.streams) {
    if (!owner->stream->blocking || owner->stream->device != stream->device) continue;
    if (owner->stream->capture != nullptr) {
      owner->stream->capture->invalid = true;
      return cudaErrorStreamCaptureImplicit;
    }
    WaitFor(stream, owner->stream);
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t Submit(const StreamPointer& stream, Operation operation) {
  if (stream->capture != nullptr) {
    if (stream->capture->invalid) return cudaErrorStreamCaptureInvalidated;
    stream->capture->Add(stream.get(), {std::move(operation), nullptr});
    return cudaSuccess;
  }
  const cudaError_t error = OrderWithDefaultStream(stream);
  if (error == cudaSuccess) stream->Enqueue(std::move(operation));
  return error;
}

cudaError_t CheckAllowedBesideCaptures() {
  for (const auto& capture : TheState().captures) {
    const bool own = capture->thread == std::this_thread::get_id();
    if (capture->mode == cudaStreamCaptureModeRelaxed) continue;
    if (capture->mode == cudaStreamCaptureModeThreadLocal && !own) continue;
    capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  return cudaSuccess;
}

void DrainDevice(Lock& lock) {
  State& state = TheState();
  std::vector<StreamPointer> streams;
  const auto found = state.default_streams.find(CurrentDevice());
  if (found != state.default_streams.end()) streams.push_back(found->second);
  for (const auto& [handle, owner] : state.streams) {
    if (owner->stream->device == CurrentDevice()) streams.push_back(owner->stream);
  }
  lock.unlock();
  for (const StreamPointer& stream : streams) stream->Drain();
  lock.lock();
}

cudaError_t Outcome() { return TheState().broken; }

const Allocation* FindAllocation(const void* memory, std::size_t bytes) {
  const State& state = TheState();
  const auto* begin = static_cast<const std::byte*>(memory);
  auto found = state.allocations.upper_bound(begin);
  if (found == state.allocations.begin()) return nullptr;
  --found;
  const auto offset = static_cast<std::size_t>(begin - found->first);
  return offset + bytes <= found->second.bytes ? &found->second : nullptr;
}

void ResetDevice(const DeviceOptions& options) {
  State& state = TheState();
  const Lock lock(state.mutex);
  for (const auto& [memory, allocation] : state.allocations) {
    std::free(const_cast<std::byte*>(memory));
  }
  state.options = options;
  state.counts = {};
  state.calls.clear();
  state.failures.clear();
  state.broken = cudaSuccess;
  state.hangs = false;
  state.kernel_failure.clear();
  state.allocations.clear();
  state.bytes_in_use.clear();
  state.default_streams.clear();
  state.streams.clear();
  state.events.clear();
  state.graphs.clear();
  state.executables.clear();
  state.captures.clear();
  state.functions.clear();
  CurrentDevice() = 0;
  LastError() = cudaSuccess;
}

void HangDevice() {
  cudaDeviceSynchronize();  // what it was given before is done
  State& state = TheState();
  const Lock lock(state.mutex);
  state.hangs = true;
}

void FailCall(std::string_view function, int nth, cudaError_t error) {
  State& state = TheState();
  const Lock lock(state.mutex);
  state.failures[std::string(function)] = {nth, error};
}

void BreakDevice(cudaError_t error) {
  State& state = TheState();
  const Lock lock(state.mutex);
  state.broken = error;
}

std::string LastKernelFailure() {
  State& state = TheState();
  const Lock lock(state.mutex);
  return state.kernel_failure;
}

DeviceCounts Counts() {
  State& state = TheState();
  const Lock lock(state.mutex);
  return state.counts;
}

std::int64_t Calls(std::string_view function) {
  State& state = TheState();
  const Lock lock(state.mutex);
  const auto found = state.calls.find(function);
  return found == state.calls.end() ? 0 : found->second;
}

std::size_t DeviceBytesInUse() {
  State& state = TheState();
  const Lock lock(state.mutex);
  std::size_t bytes = 0;
  for (const auto& [device, used] : state.bytes_in_use) bytes += used;
  return bytes;
}

std::int64_t LiveAllocations() {
  State& state = TheState();
  const Lock lock(state.mutex);
  return static_cast<std::int64_t>(state.allocations.size());
}

cudaError_t EnqueueOnStream(cudaStream_t handle, std::function<void()> operation) {
  State& state = TheState();
  const Lock lock(state.mutex);
  const StreamPointer stream = FindStream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  Operation of_library(std::move(operation));
  of_library.is_kernel = true;
  return Submit(stream, std::move(of_library));
}

bool IsDeviceMemory(const void* memory, std::size_t bytes) {
  State& state = TheState();
  const Lock lock(state.mutex);
  const Allocation* allocation = FindAllocation(memory, bytes);
  return allocation != nullptr && allocation->kind == MemoryKind::kDevice;
}

}  // namespace twin::cuda_emulation
