// Checks that a request's prefix chunks match its length.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/files/line_reader.h"
#include "core/traced_request.h"

namespace twin {

// Throws InputError if a request has chunks but no chunk size, or more chunks than `tokens` need.
inline void CheckPrefixChunks(const LineReader& lines, std::string_view field,
                              const TracedRequest& request, std::int64_t tokens) {
  const std::int64_t chunk = request.prefix_chunk_tokens;
  const auto count = static_cast<std::int64_t>(request.prefix_chunks.size());
  if (count == 0) return;
  if (chunk < 1) lines.RefuseField("prefix_chunk_tokens", std::to_string(chunk), "at least 1");
  if (count > (tokens + chunk - 1) / chunk) {
    lines.RefuseField(field,
                      std::to_string(count) + " chunks of " + std::to_string(chunk) + " tokens",
                      "no more than " + std::to_string(tokens) + " tokens need");
  }
}

}  // namespace twin
