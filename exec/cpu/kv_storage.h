// Memory of a paged KV cache.
#pragma once

#include "kernels/aligned_buffer.h"
#include "kernels/kv_cache.h"

namespace twin::exec {

// Owns shape.Bytes() bytes, zero at first. Throws std::bad_alloc.
class KvStorage {
 public:
  explicit KvStorage(const kernels::KvCacheShape& shape)
      : buffer_(static_cast<std::size_t>(shape.Bytes())), view_{buffer_.data(), shape} {}

  [[nodiscard]] const kernels::KvCacheView& view() const { return view_; }

 private:
  kernels::AlignedBuffer buffer_;
  kernels::KvCacheView view_;
};

}  // namespace twin::exec
