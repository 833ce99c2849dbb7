// Shape and memory layout of a paged KV cache.
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
  // Above 0: the first numbers of a key row, this many, are also its value, and no values are
  // stored (latent attention: the compressed vector, followed by the rotated key).
  std::int64_t value_in_key = 0;

  bool operator==(const KvCacheShape&) const = default;

  // Rows of a token and head in a layer: the key and the value, or both in one.
  [[nodiscard]] std::int64_t parts() const { return value_in_key > 0 ? 1 : 2; }
  [[nodiscard]] std::int64_t value_dim() const {
    return value_in_key > 0 ? value_in_key : head_dim;
  }
  // Bytes of one key or value row (one token, one head), of one block (keys and values of all
  // layers), and of all blocks.
  [[nodiscard]] std::int64_t RowBytes() const { return head_dim * ByteSize(dtype); }
  [[nodiscard]] std::int64_t BlockBytes() const {
    return layers * parts() * kv_heads * block_size * RowBytes();
  }
  [[nodiscard]] std::int64_t Bytes() const { return blocks * BlockBytes(); }
};

// A borrowed cache. Layout: [block][layer][keys, values][kv head][block_size][head_dim], so that
// all layers of a block are contiguous; without [keys, values] where values lie in keys.
struct KvCacheView {
  std::byte* data = nullptr;
  KvCacheShape shape;

  [[nodiscard]] std::byte* Block(std::int64_t block) const {
    return data + block * shape.BlockBytes();
  }
  // The keys or values of one head in one block, [block_size][head_dim]. `values`: 0 = keys,
  // 1 = values. REQUIRES: values < shape.parts().
  [[nodiscard]] std::byte* Tile(std::int64_t block, std::int64_t layer, std::int64_t values,
                                std::int64_t head) const {
    const std::int64_t tile = (layer * shape.parts() + values) * shape.kv_heads + head;
    return Block(block) + tile * shape.block_size * shape.RowBytes();
  }
};

}  // namespace twin::kernels
