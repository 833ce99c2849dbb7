// Sums over the steps and the time of a replica, or of several replicas.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/time.h"
#include "run/record/metric_writer.h"
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

// The steps of a replica, or sums over replicas. Replicas may end steps at once, on several
// threads.
struct alignas(64) StepWork {
  enum Count : std::uint8_t {
    kSteps,
    kPrefillTokens,
    kDecodeTokens,  // including tokens that verify drafts
    kPaddingTokens,
    kRecomputedTokens,
    kSequences,
    kRecomputes,  // preemptions
    kSwaps,
    kDraftItems,
    kDraftTokens,
    kAcceptedDrafts,
    kCounts,
  };

  std::array<std::int64_t, kCounts> counts{};
  BusyTime busy;

  void Add(const EndedStep& step);
  StepWork& operator+=(const StepWork& other);
  void Summarise(const MetricWriter& out) const;
};

// The load of replicas over time: integrals, in seconds, and peaks.
struct LoadOverTime {
  std::int32_t replicas = 1;
  std::int32_t kv_blocks = 0;  // usable device blocks of all replicas
  double seconds = 0;
  double waiting = 0;
  double running = 0;
  double swapped = 0;
  double blocks = 0;
  Load peak = {};
  TimePoint until = kTimeZero;

  void Add(TimePoint from, TimePoint to, const Load& load);
  // `busy`: summed over the replicas.
  void Summarise(const MetricWriter& out, Duration busy) const;
};

}  // namespace twin
