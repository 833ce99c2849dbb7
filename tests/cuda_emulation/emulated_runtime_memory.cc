// Memory and copies of the emulated runtime.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/cuda_emulation/emulated_state.h"

namespace twin::cuda_emulation {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr int kPoison = 0xFF;

cudaError_t Allocate(void** memory, std::size_t bytes, MemoryKind kind) {
  State& state = TheState();
  *memory = nullptr;
  if (bytes == 0) return cudaSuccess;
  const int device = CurrentDevice();
  if (kind == MemoryKind::kDevice) {
    if (bytes > state.options.memory_bytes - state.bytes_in_use[device]) {
      return cudaErrorMemoryAllocation;
    }
    ++state.counts.allocations;
  }
  if (posix_memalign(memory, kAlignment, bytes) != 0) return cudaErrorMemoryAllocation;
  std::memset(*memory, kPoison, bytes);
  if (kind == MemoryKind::kDevice) state.bytes_in_use[device] += bytes;
  state.allocations[static_cast<std::byte*>(*memory)] = {bytes, kind, device};
  return cudaSuccess;
}

// Waits for all work first: it may use the memory.
cudaError_t Free(Lock& lock, void* memory, MemoryKind kind) {
  State& state = TheState();
  if (memory == nullptr) return cudaSuccess;
  if (const cudaError_t error = CheckAllowedBesideCaptures()) return error;
  DrainDevice(lock);
  const auto found = state.allocations.find(static_cast<std::byte*>(memory));
  if (found == state.allocations.end() || found->second.kind != kind) return cudaErrorInvalidValue;
  if (kind == MemoryKind::kDevice) state.bytes_in_use[found->second.device] -= found->second.bytes;
  state.allocations.erase(found);
  std::free(memory);
  return cudaSuccess;
}

// Rows of bytes; one row for a plain copy.
struct Copy {
  std::byte* to = nullptr;
  std::size_t to_pitch = 0;
  const std::byte* from = nullptr;
  std::size_t from_pitch = 0;
  std::size_t width = 0;
  std::size_t height = 1;

  [[nodiscard]] std::size_t ToBytes() const { return to_pitch * (height - 1) + width; }
  [[nodiscard]] std::size_t FromBytes() const { return from_pitch * (height - 1) + width; }
};

enum class Place { kDevice, kPinned, kPageable };

struct Route {
  Place from = Place::kPageable;
  Place to = Place::kPageable;
};

Place PlaceOf(const void* memory, std::size_t bytes) {
  const Allocation* allocation = FindAllocation(memory, bytes);
  if (allocation == nullptr) return Place::kPageable;
  return allocation->kind == MemoryKind::kDevice ? Place::kDevice : Place::kPinned;
}

bool Allows(cudaMemcpyKind kind, const Route& route) {
  const bool from_device = route.from == Place::kDevice;
  const bool to_device = route.to == Place::kDevice;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !from_device && !to_device;
    case cudaMemcpyHostToDevice:
      return !from_device && to_device;
    case cudaMemcpyDeviceToHost:
      return from_device && !to_device;
    case cudaMemcpyDeviceToDevice:
      return from_device && to_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

void Perform(const Copy& copy, const Route& route) {
  for (std::size_t row = 0; row < copy.height; ++row) {
    std::memmove(copy.to + row * copy.to_pitch, copy.from + row * copy.from_pitch, copy.width);
  }
  State& state = TheState();
  const Lock lock(state.mutex);
  const auto bytes = static_cast<std::int64_t>(copy.width * copy.height);
  ++state.counts.copies;
  if (route.from == Place::kDevice && route.to == Place::kDevice) {
    state.counts.bytes_within_device += bytes;
  } else if (route.to == Place::kDevice) {
    ++state.counts.copies_to_device;
    state.counts.bytes_to_device += bytes;
  } else if (route.from == Place::kDevice) {
    state.counts.bytes_to_host += bytes;
  }
}

// Gives a copy to a stream; waits for it where the real one does.
cudaError_t Submit(Lock& lock, const StreamPointer& stream, const Copy& copy, cudaMemcpyKind kind,
                   bool wait) {
  if (copy.width == 0 || copy.height == 0) return cudaSuccess;
  if (copy.to == nullptr || copy.from == nullptr) return cudaErrorInvalidValue;
  const Route route{PlaceOf(copy.from, copy.FromBytes()), PlaceOf(copy.to, copy.ToBytes())};
  if (!Allows(kind, route)) return cudaErrorInvalidValue;
  const bool pageable = route.from == Place::kPageable || route.to == Place::kPageable;
  if (pageable && stream->capture != nullptr) {
    stream->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  Operation operation = [copy, route] { Perform(copy, route); };
  if (route.from == Place::kPageable && !wait) {
    std::vector<std::byte> staged(copy.from, copy.from + copy.FromBytes());
    operation = [copy, route, staged = std::move(staged)] {
      Copy from_staged = copy;
      from_staged.from = staged.data();
      Perform(from_staged, route);
    };
  }
  if (const cudaError_t error = Submit(stream, std::move(operation))) return error;
  if (!wait && route.to != Place::kPageable) return cudaSuccess;
  ++TheState().counts.synchronisations;
  lock.unlock();
  stream->Drain();
  lock.lock();
  return Outcome();
}

cudaError_t Fill(Lock& lock, const StreamPointer& stream, void* memory, int value,
                 std::size_t bytes, bool wait) {
  if (bytes == 0) return cudaSuccess;
  if (PlaceOf(memory, bytes) == Place::kPageable) return cudaErrorInvalidValue;
  if (const cudaError_t error =
          Submit(stream, [memory, value, bytes] { std::memset(memory, value, bytes); })) {
    return error;
  }
  if (!wait) return cudaSuccess;
  lock.unlock();
  stream->Drain();
  lock.lock();
  return Outcome();
}

// The stream of a call, handed to `body`.
template <class Body>
cudaError_t CallOnStream(const char* function, cudaStream_t handle, Body body) {
  return Call(function, [&](Lock& lock) {
    const StreamPointer stream = FindStream(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : body(lock, stream);
  });
}

Copy Plain(void* to, const void* from, std::size_t bytes) {
  return {static_cast<std::byte*>(to), bytes, static_cast<const std::byte*>(from), bytes, bytes, 1};
}

cudaError_t CallAllocate(const char* function, void** memory, std::size_t bytes, MemoryKind kind) {
  return Call(function, [&](Lock&) {
    if (memory == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t error = CheckAllowedBesideCaptures()) return error;
    return Allocate(memory, bytes, kind);
  });
}

}  // namespace
}  // namespace twin::cuda_emulation

// The names of the runtime's functions are its own.
using namespace twin::cuda_emulation;  // NOLINT(google-build-using-namespace)

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return CallAllocate(__func__, memory, bytes, MemoryKind::kDevice);
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  return CallAllocate(__func__, memory, bytes, MemoryKind::kPinned);
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return CallAllocate(__func__, memory, bytes, MemoryKind::kPinned);
}

cudaError_t cudaFree(void* memory) {
  return Call(__func__, [&](Lock& lock) { return Free(lock, memory, MemoryKind::kDevice); });
}

cudaError_t cudaFreeHost(void* memory) {
  return Call(__func__, [&](Lock& lock) { return Free(lock, memory, MemoryKind::kPinned); });
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return CallOnStream(__func__, nullptr, [&](Lock& lock, const StreamPointer& stream) {
    if (const cudaError_t error = CheckAllowedBesideCaptures()) return error;
    return Submit(lock, stream, Plain(to, from, bytes), kind, true);
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  return CallOnStream(__func__, handle, [&](Lock& lock, const StreamPointer& stream) {
    return Submit(lock, stream, Plain(to, from, bytes), kind, false);
  });
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t handle) {
  return CallOnStream(__func__, handle, [&](Lock& lock, const StreamPointer& stream) {
    if (height > 1 && (to_pitch < width || from_pitch < width)) return cudaErrorInvalidPitchValue;
    const Copy copy{static_cast<std::byte*>(to),
                    to_pitch,
                    static_cast<const std::byte*>(from),
                    from_pitch,
                    width,
                    height};
    return Submit(lock, stream, copy, kind, false);
  });
}

cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return CallOnStream(__func__, nullptr, [&](Lock& lock, const StreamPointer& stream) {
    if (const cudaError_t error = CheckAllowedBesideCaptures()) return error;
    return Fill(lock, stream, memory, value, bytes, true);
  });
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t handle) {
  return CallOnStream(__func__, handle, [&](Lock& lock, const StreamPointer& stream) {
    return Fill(lock, stream, memory, value, bytes, false);
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return Call(__func__, [&](Lock&) {
    State& state = TheState();
    *total = state.options.memory_bytes;
    *free = *total - state.bytes_in_use[CurrentDevice()];
    return cudaSuccess;
  });
}
