// Runs a policy in unit time and renders its decisions in the notation of tests/golden/README.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sched/policy/registry.h"

namespace twin::testing {

// Request A is the first of a list, B the second, ...
struct Asked {
  std::int32_t step = 1;  // it waits before the scheduler call of this iteration
  std::int32_t prompt = 0;
  std::int32_t output = 0;
  std::int32_t priority = 0;
  std::vector<std::uint64_t> content = {};  // of the prompt's tokens; empty = unknown
  std::int32_t predicted = -1;              // output tokens; -1 = no prediction
  std::uint32_t tenant = 0;
  // Drafts accepted, by item with drafts; none behind the last one. As many are offered as the
  // policy verifies.
  std::vector<std::int32_t> accepts = {};
};

struct TraceOptions {
  std::int32_t block_size = 4;
  std::int32_t blocks = 0;
  std::int32_t host_blocks = 0;
  std::int32_t window_blocks = 0;
  std::int32_t depth = 1;     // a step returns after this many scheduler calls, its own included
  bool shows_blocks = false;  // renders the blocks of each request in the step, numbered from 1
};

// Runs the requests to their end through the real engine and loop, and renders
//   it3: A:D1 B:P7 C:V3 | pre=[C] | free=4 | fin=[A] | freeA=6
// one line per iteration with requests in the system. An iteration takes a nanosecond. V: verifies
// drafts. pre: preempted by recompute; out, in: swapped; rel: released later than finished; rej:
// rejected; tokens: computed, if any of them is padding.
std::string Decided(const PolicyConfig& policy, const TraceOptions& options,
                    std::vector<Asked> asked);

}  // namespace twin::testing
