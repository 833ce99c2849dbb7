// What a policy decides, in the notation of the worked examples, with steps of one unit of time.
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
};

struct TraceOptions {
  std::int32_t block_size = 4;
  std::int32_t blocks = 0;
  std::int32_t host_blocks = 0;
  std::int32_t depth = 1;     // a step returns behind so many scheduler calls, its own included
  bool shows_blocks = false;  // what every request in the step holds, numbered from 1
};

// Runs the requests to their end through the real engine and loop, and renders
//   it3: A:D1 B:P7 | pre=[C] | free=4 | fin=[A] | freeA=6
// a line an iteration in which requests are in the system. pre: preempted by recompute, out and in:
// swapped, rel: blocks given up late, rej: rejected, tokens: computed, where padding is among them.
std::string Decided(const PolicyConfig& policy, const TraceOptions& options,
                    std::vector<Asked> asked);

}  // namespace twin::testing
