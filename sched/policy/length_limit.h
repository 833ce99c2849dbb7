// How long a request can become, for policies that reserve memory for all of it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sched/sequence.h"

namespace twin {

// Tokens of the prompt and of the longest output that the client's limit and the context allow, and
// at least the known tokens. `context` <= 0: only the client's limit.
[[nodiscard]] inline std::int32_t LengthLimit(const Sequence& s, std::int32_t context) {
  std::int64_t most = std::int64_t{s.prompt_tokens} + s.max_output_tokens;
  if (context > 0) most = std::min<std::int64_t>(most, context);
  return std::max(s.known, static_cast<std::int32_t>(most));
}

}  // namespace twin
