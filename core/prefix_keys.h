// Computes the keys of KV blocks from the prefix chunks that a workload gives for a request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/hash.h"
#include "core/ids.h"

namespace twin {

// The part of a request's content that its workload identifies (TracedRequest::prefix_chunks).
struct NamedContent {
  std::span<const std::uint64_t> chunks;
  std::int32_t chunk_tokens = 0;
  std::int64_t tokens = 0;  // number of tokens, from position 0 on, that the chunks cover

  // If all chunks end within prompt and output, they identify tokens of both. Otherwise the end of
  // the prompt cuts the last chunk short, and the content of the output is unknown.
  static NamedContent Of(std::span<const std::uint64_t> chunks, std::int32_t chunk_tokens,
                         std::int32_t prompt_tokens, std::int32_t output_tokens) {
    const std::int64_t covered = static_cast<std::int64_t>(chunks.size()) * chunk_tokens;
    const bool whole = covered <= std::int64_t{prompt_tokens} + output_tokens;
    return {chunks, chunk_tokens, whole ? covered : prompt_tokens};
  }
};

// The keys of whole blocks among `keys`. Each block has `per_block` keys, of which the last one
// names the block and all content before it. Borrows the keys.
class BlockKeys {
 public:
  // REQUIRES: per_block >= 1.
  explicit BlockKeys(std::span<const BlockKey> keys, std::int32_t per_block = 1)
      : keys_(keys), per_block_(static_cast<std::size_t>(per_block)) {}

  [[nodiscard]] std::size_t size() const { return keys_.size() / per_block_; }
  [[nodiscard]] bool empty() const { return size() == 0; }
  // REQUIRES: block < size().
  BlockKey operator[](std::size_t block) const { return keys_[(block + 1) * per_block_ - 1]; }

 private:
  std::span<const BlockKey> keys_;
  std::size_t per_block_;
};

// The key of block number `block` of a request. Two requests get the same key if the same chunk
// covers the block's last token. A block without a chunk there gets a private key.
inline BlockKey KeyOfBlock(const NamedContent& content, RequestId request, std::int32_t block,
                           std::int32_t block_size) {
  const auto number = static_cast<std::uint64_t>(block);
  const std::int64_t last_token = (std::int64_t{block} + 1) * block_size - 1;
  if (last_token >= content.tokens) return PrivateKey(MixWords(Index(request), number));
  const auto chunk = static_cast<std::size_t>(last_token / content.chunk_tokens);
  return SharedKey(MixWords(content.chunks[chunk], number));
}

}  // namespace twin
