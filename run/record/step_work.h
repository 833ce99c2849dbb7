// Sums over the steps of a replica.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/time.h"
#include "run/record/run_listener.h"

namespace twin {

// The union of the times of a replica's steps, which end in order and may overlap.
struct BusyTime {
  Duration total{0};
  TimePoint until = TimePoint::min();  // the latest end of a step

  void Add(const EndedStep& step) {
    total += std::max(step.finished - std::max(step.started, until), Duration{0});
    until = std::max(until, step.finished);
  }
};

// The steps of a replica, or sums over replicas.
struct StepWork {
  std::int64_t steps = 0;
  std::int64_t prefill_tokens = 0;
  std::int64_t decode_tokens = 0;  // including tokens that verify drafts
  BusyTime busy;

  void Add(const EndedStep& step) {
    const StepTotals& totals = step.plan.totals;
    // The totals count tokens that verify drafts as prefill.
    const std::int64_t verified = totals.draft_items + totals.draft_tokens;
    ++steps;
    prefill_tokens += totals.prefill_tokens - verified;
    decode_tokens += totals.decode_items + verified;
    busy.Add(step);
  }

  StepWork& operator+=(const StepWork& other) {
    steps += other.steps;
    prefill_tokens += other.prefill_tokens;
    decode_tokens += other.decode_tokens;
    busy.total += other.busy.total;
    busy.until = std::max(busy.until, other.busy.until);
    return *this;
  }
};

}  // namespace twin
