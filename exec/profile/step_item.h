// The work of one request in a synthetic step.
#pragma once

#include <cstdint>
#include <span>

#include "sched/step_plan.h"

namespace twin::exec {

// Tokens start..start + tokens - 1 of a request. All earlier tokens are in the cache.
struct StepItem {
  std::int32_t start = 0;
  std::int32_t tokens = 1;
  Phase phase = Phase::kDecode;
  bool emits = true;

  bool operator==(const StepItem&) const = default;
};

// The decode of a request with `context` tokens in the cache.
inline StepItem DecodeItem(std::int32_t context) { return {.start = context}; }
// A chunk of `tokens` tokens after `context` cached ones; the last chunk of a prompt emits.
inline StepItem ChunkItem(std::int32_t context, std::int32_t tokens, bool last) {
  return {.start = context, .tokens = tokens, .phase = Phase::kPrefill, .emits = last};
}

// The work item that an engine would plan.
StepTotals TotalsOf(std::span<const StepItem> items);

}  // namespace twin::exec
