// Memory of a device and pinned memory of the host, owned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace twin::exec::cuda {

// Bytes on the current device, aligned to 256; not initialised. Empty by default.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // `what` names it where there is no room: DeviceError (out_of_memory).
  DeviceBuffer(std::int64_t bytes, const char* what);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  template <class T>
  [[nodiscard]] T* As() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

// Page-locked bytes of the host, which copies to and from a device run beside everything else.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(std::int64_t bytes, const char* what);
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  template <class T>
  [[nodiscard]] T* As() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

// Free and all bytes of the current device.
struct DeviceMemory {
  std::int64_t free = 0;
  std::int64_t total = 0;
};
DeviceMemory CurrentDeviceMemory();

}  // namespace twin::exec::cuda
