// A request as a workload describes it. Scheduling policies never see all of it: the true output
// length is hidden from them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/time.h"

namespace twin {

// One line of a trace, or one request drawn by a generator.
struct TracedRequest {
  TimePoint arrival;                   // time since the start of the trace
  std::int32_t prompt_tokens = 0;      // >= 1
  std::int32_t output_tokens = 0;      // >= 1; the true output length, known only to the world
  std::int32_t max_output_tokens = 0;  // >= output_tokens; the limit that the client asked for
  std::int32_t predicted_output_tokens = -1;  // the estimate of a predictor or oracle; -1 = none
  std::int32_t priority = 0;                  // smaller = more important
  std::uint32_t tenant = 0;
  std::uint64_t session = 0;  // requests of one conversation share it; 0 = none
  bool ignore_eos = false;    // the client asked for max_output_tokens, whatever the model emits
  // Time for which its client held it back before `arrival`, to keep a limit of requests in flight.
  Duration client_wait{0};
  // Identifies the content in chunks of `prefix_chunk_tokens`, from the start of the prompt: equal
  // values mean an equal chunk and equal content before it. The chunks cover the prompt, whose end
  // may cut the last one short, or continue into the output, in whole chunks only. Empty = the
  // content is unknown and shared with no other request.
  std::vector<std::uint64_t> prefix_chunks;
  std::int32_t prefix_chunk_tokens = 0;

  bool operator==(const TracedRequest&) const = default;
};

}  // namespace twin
