// The longest request of a load, from which the limit of a server follows, and the mean one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "traces/workload.h"

namespace twin::run {

struct LongestRequest {
  std::int64_t tokens = 0;    // prompt and the limit of the output
  std::int64_t requests = 0;  // that were looked at
  double mean_prompt_tokens = 0;
  double mean_output_tokens = 0;
  double requests_per_s = 0;          // between the first and the last arrival; 0 = all at once
  std::vector<std::int64_t> lengths;  // as `tokens`, of every request

  [[nodiscard]] std::int64_t LongerThan(std::int64_t limit) const {
    return std::ranges::count_if(lengths, [limit](std::int64_t one) { return one > limit; });
  }
};

// Looks at all requests of a trace, or at the first 100,000 of a load that is drawn; answers arrive
// at once. Throws InputError for a workload that is not valid, or a trace that is bad.
LongestRequest LongestRequestOf(WorkloadConfig workload, std::uint64_t seed);

// The next of five to eight eighths of a power of two (1280, 1536, 1792, 2048), at least 256:
// lengths that people set, with room for a somewhat longer request.
std::int64_t PlausibleLimit(std::int64_t tokens);

}  // namespace twin::run
