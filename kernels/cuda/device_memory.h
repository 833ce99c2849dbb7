// Owners of device memory and of pinned host memory.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace twin::kernels::cuda {

enum class MemoryPlace : std::uint8_t {
  kDevice,  // on the current device, aligned to 256 bytes
  kHost,    // page-locked: copies to and from a device are asynchronous
};

// An uninitialised allocation. Empty by default. Move-only.
template <MemoryPlace kPlace>
class OwnedMemory {
 public:
  OwnedMemory() = default;
  // Allocates `bytes`. Throws DeviceError; out_of_memory() is true if the allocation does not fit.
  // `what` names the allocation in the message.
  template <std::integral Bytes>
  OwnedMemory(Bytes bytes, const char* what) : bytes_(static_cast<std::int64_t>(bytes)) {
    Take(what);
  }
  ~OwnedMemory();
  OwnedMemory(OwnedMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  OwnedMemory& operator=(OwnedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  // bytes() as std::size_t.
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(bytes_); }
  template <class T>
  [[nodiscard]] T* As() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  void Take(const char* what);

  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

using DeviceBuffer = OwnedMemory<MemoryPlace::kDevice>;
using PinnedBuffer = OwnedMemory<MemoryPlace::kHost>;

extern template class OwnedMemory<MemoryPlace::kDevice>;
extern template class OwnedMemory<MemoryPlace::kHost>;

// Free and total memory of the current device, in bytes.
struct DeviceMemory {
  std::int64_t free = 0;
  std::int64_t total = 0;
};
DeviceMemory CurrentDeviceMemory();

}  // namespace twin::kernels::cuda
