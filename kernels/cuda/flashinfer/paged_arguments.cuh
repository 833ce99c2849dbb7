// The paged cache and the batch in FlashInfer's terms, for the kernels of attention/prefill.cuh and
// attention/decode.cuh.
#pragma once

#include <array>

#include <flashinfer/page.cuh>

#include "core/check.h"
#include "kernels/cuda/flashinfer/planned_attention.h"
#include "kernels/cuda/kernel_overlap.h"

namespace twin::kernels::cuda {

// FlashInfer's window: the number of tokens to the left of a query, without itself; -1 = all.
inline std::int32_t WindowLeft(std::int64_t window) {
  return window > 0 ? static_cast<std::int32_t>(window - 1) : -1;
}

// Elements from one block to the next. FlashInfer's strides have 32 bits, its offsets 64.
inline std::int64_t PageStride(const KvCacheShape& shape) {
  const std::int64_t stride = shape.BlockBytes() / ByteSize(shape.dtype);
  CHECK(stride < std::int64_t{1} << 32);
  return stride;
}

// FlashInfer's kernels multiply rows by elements in 32 bits.
inline void CheckRowOffsets(const AttentionCall& call) {
  CHECK(call.q.rows * call.q.stride < std::int64_t{1} << 31);
  CHECK(call.out.rows * call.out.stride < std::int64_t{1} << 31);
  CHECK(call.out.stride == call.out.columns);
}

// True if kernels may be placed on the device before earlier kernels have finished. No kernel
// writes what they read before they wait: the plan and the batch's arrays.
inline bool LaunchesOverlap() { return KernelsOverlap(); }

// FlashInfer's interface takes pointers to what it only reads.
inline std::int32_t* Mutable(const std::int32_t* values) {
  return const_cast<std::int32_t*>(values);
}

template <class Element>
flashinfer::paged_kv_t<Element, std::int32_t> PagedKv(const AttentionPart& part,
                                                      const AttentionCall& call) {
  const KvCacheShape& shape = call.cache.shape;
  const std::array<std::int64_t, 3> strides = {PageStride(shape), shape.block_size * shape.head_dim,
                                               shape.head_dim};
  return {static_cast<std::uint32_t>(shape.kv_heads),
          static_cast<std::uint32_t>(shape.block_size),
          static_cast<std::uint32_t>(shape.head_dim),
          static_cast<std::uint32_t>(part.sequences),
          flashinfer::QKVLayout::kHND,
          reinterpret_cast<Element*>(call.cache.Tile(0, call.layer, 0, 0)),
          reinterpret_cast<Element*>(call.cache.Tile(0, call.layer, 1, 0)),
          strides.data(),
          Mutable(part.device.page_indices),
          Mutable(part.device.page_begin),
          Mutable(part.device.last_page_tokens)};
}

}  // namespace twin::kernels::cuda
