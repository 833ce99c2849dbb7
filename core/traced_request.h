// A request as a workload describes it: the truth that a scheduling policy never sees whole.
#pragma once

#include <cstdint>
#include <vector>

#include "core/time.h"

namespace twin {

// One line of a trace, or one draw of a generator.
struct TracedRequest {
  TimePoint arrival;                   // since the start of the trace
  std::int32_t prompt_tokens = 0;      // >= 1
  std::int32_t output_tokens = 0;      // >= 1; the true output length, known to the world alone
  std::int32_t max_output_tokens = 0;  // >= output_tokens; the limit that the client asked for
  std::int32_t predicted_output_tokens = -1;  // a predictor's or oracle's word; -1 = none
  std::int32_t priority = 0;                  // smaller = more important
  std::uint32_t tenant = 0;
  std::uint64_t session = 0;  // requests of one conversation share it; 0 = none
  // Identity of the content in chunks of `prefix_chunk_tokens`, from the prompt's begin on: equal
  // value = equal chunk and equal everything before it. They name the prompt (its last chunk may be
  // cut short), or go on through the output (whole chunks only). Empty = unknown, shares nothing.
  std::vector<std::uint64_t> prefix_chunks;
  std::int32_t prefix_chunk_tokens = 0;

  bool operator==(const TracedRequest&) const = default;
};

}  // namespace twin
