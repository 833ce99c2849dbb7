// Aligned memory for the large arrays that kernels stream through.
#pragma once

#include <cstddef>
#include <cstdint>

namespace twin::kernels {

// Owns `size` bytes, initially zero, aligned to 64 bytes. Buffers of 2 MiB or more are aligned to
// 2 MiB and backed by huge pages if the system has them. Move-only.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Throws std::bad_alloc.
  explicit AlignedBuffer(std::size_t size);
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  ~AlignedBuffer();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

  // The buffer as `count` elements of T, for scratch memory. If it is too small, a larger one
  // replaces it, and the old content is lost.
  template <class T>
  T* Reserve(std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (bytes > size_) *this = AlignedBuffer(bytes + bytes / 4);
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace twin::kernels
