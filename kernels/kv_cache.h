// Where the keys and values of a paged cache lie.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace twin::kernels {

struct KvCacheShape {
  DType dtype = DType::kFp32;  // kFp32 or kBf16
  std::int64_t blocks = 0;
  std::int64_t layers = 0;
  std::int64_t kv_heads = 0;
  std::int64_t block_size = 0;  // tokens per block; any number from 1
  std::int64_t head_dim = 0;

  bool operator==(const KvCacheShape&) const = default;

  // Of one token in one head, of one block in all layers (keys and values), of all blocks.
  [[nodiscard]] std::int64_t RowBytes() const { return head_dim * ByteSize(dtype); }
  [[nodiscard]] std::int64_t BlockBytes() const {
    return layers * 2 * kv_heads * block_size * RowBytes();
  }
  [[nodiscard]] std::int64_t Bytes() const { return blocks * BlockBytes(); }
};

// A borrowed cache, block-major: [block][layer][keys, values][kv head][block_size][head_dim], so
// that a block of all layers is one run of bytes.
struct KvCacheView {
  std::byte* data = nullptr;
  KvCacheShape shape;

  [[nodiscard]] std::byte* Block(std::int64_t block) const {
    return data + block * shape.BlockBytes();
  }
  // [block_size][head_dim] of one head. `values` is 0 for keys and 1 for values.
  [[nodiscard]] std::byte* Tile(std::int64_t block, std::int64_t layer, std::int64_t values,
                                std::int64_t head) const {
    const std::int64_t tile = (layer * 2 + values) * shape.kv_heads + head;
    return Block(block) + tile * shape.block_size * shape.RowBytes();
  }
};

}  // namespace twin::kernels
