// From a workload's names of content to the keys of KV blocks.
#pragma once

#include <cstdint>
#include <span>

#include "core/hash.h"
#include "core/ids.h"

namespace twin {

// The key of block `block` of a request: the same for two requests where the same chunk of content
// covers its last token, otherwise the request's own. `chunks` names the content from position 0
// on, `chunk_tokens` each (TracedRequest::prefix_chunks); what it does not reach is shared with
// nobody.
inline BlockKey KeyOfBlock(std::span<const std::uint64_t> chunks, std::int32_t chunk_tokens,
                           RequestId request, std::int32_t block, std::int32_t block_size) {
  constexpr std::uint64_t kOwnContent = 0x6F776E0000000000ull;
  const std::int64_t last_token = (std::int64_t{block} + 1) * block_size - 1;
  const auto chunk =
      chunks.empty() ? std::size_t{0} : static_cast<std::size_t>(last_token / chunk_tokens);
  const std::uint64_t content =
      chunk < chunks.size() ? chunks[chunk] : kOwnContent + Index(request);
  return BlockKey{MixWords(content, static_cast<std::uint64_t>(block))};
}

}  // namespace twin
