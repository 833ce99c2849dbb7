// Memory and events of a device that are freed with their owner. Only for sources that are compiled
// with the toolkit's headers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

// Uninitialised memory on the current device. Throws DeviceError that names `purpose`.
class DeviceArray {
 public:
  DeviceArray(std::size_t bytes, const char* purpose) : bytes_(bytes) {
    if (bytes == 0) return;
    CheckCuda(cudaMalloc(&data_, bytes), (std::string("cudaMalloc of ") + purpose).c_str());
  }
  ~DeviceArray() {
    if (data_ != nullptr) cudaFree(data_);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

// Memory of the host that copies to and from a device may overlap with.
class PinnedArray {
 public:
  PinnedArray(std::size_t bytes, const char* purpose) : bytes_(bytes) {
    if (bytes == 0) return;
    CheckCuda(cudaMallocHost(&data_, bytes), (std::string("cudaMallocHost of ") + purpose).c_str());
  }
  ~PinnedArray() {
    if (data_ != nullptr) cudaFreeHost(data_);
  }
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

// `flags` as of cudaEventCreateWithFlags.
class OwnedEvent {
 public:
  explicit OwnedEvent(unsigned flags) {
    CheckCuda(cudaEventCreateWithFlags(&event_, flags), "cudaEventCreateWithFlags");
  }
  ~OwnedEvent() { cudaEventDestroy(event_); }
  OwnedEvent(const OwnedEvent&) = delete;
  OwnedEvent& operator=(const OwnedEvent&) = delete;

  [[nodiscard]] cudaEvent_t get() const { return event_; }
  void Record(StreamView stream) const {
    CheckCuda(cudaEventRecord(event_, stream.get()), "cudaEventRecord");
  }
  void Wait() const { CheckCuda(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace twin::kernels::cuda
