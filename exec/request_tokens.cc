#include "exec/request_tokens.h"

#include <algorithm>

#include "core/hash.h"
#include "core/prefix_keys.h"

namespace twin::exec {

std::int32_t RequestTokens::TokenAt(std::uint64_t content, std::size_t position) const {
  return static_cast<std::int32_t>(MixWords(content, position) %
                                   static_cast<std::uint64_t>(vocab_));
}

std::vector<std::int32_t> RequestTokens::Open(RequestId id, const TracedRequest& request) {
  const auto length = static_cast<std::size_t>(request.prompt_tokens);
  const auto chunk_tokens = static_cast<std::size_t>(request.prefix_chunk_tokens);
  const NamedContent content = NamedContent::Of(request.prefix_chunks, request.prefix_chunk_tokens,
                                                request.prompt_tokens, request.output_tokens);
  std::vector<std::int32_t> tokens;
  tokens.reserve(length);
  for (const std::uint64_t chunk : content.chunks) {
    if (tokens.size() >= length) break;
    const std::size_t count = std::min(chunk_tokens, length - tokens.size());
    const auto known = generated_.find({chunk, request.prefix_chunk_tokens});
    if (known != generated_.end()) {
      const auto begin = known->second.begin();
      tokens.insert(tokens.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
      continue;
    }
    const std::uint64_t name = MixWords(seed_, chunk);
    for (std::size_t i = 0; i < count; ++i) tokens.push_back(TokenAt(name, tokens.size()));
  }
  // The text keeps request 7 from beginning like chunk 7.
  const std::uint64_t own = MixWords(MixWords(seed_, HashText("request")), Index(id));
  while (tokens.size() < length) tokens.push_back(TokenAt(own, tokens.size()));

  Named& named = open_.Open(id);
  named.chunks.clear();
  named.tokens.clear();
  named.chunk_tokens = request.prefix_chunk_tokens;
  if (content.tokens > request.prompt_tokens) {
    named.chunks.assign(content.chunks.begin(), content.chunks.end());
    named.tokens = tokens;
  }
  return tokens;
}

void RequestTokens::Append(RequestId id, std::int32_t token) {
  Named& named = open_[id];
  if (named.chunks.empty()) return;
  named.tokens.push_back(token);
  const auto size = static_cast<std::size_t>(named.chunk_tokens);
  const std::size_t full = named.tokens.size() / size;
  if (named.tokens.size() % size != 0 || full > named.chunks.size()) return;
  generated_.try_emplace({named.chunks[full - 1], named.chunk_tokens},
                         named.tokens.end() - static_cast<std::ptrdiff_t>(size),
                         named.tokens.end());
}

void RequestTokens::Close(RequestId id) { open_.Close(id); }

}  // namespace twin::exec
