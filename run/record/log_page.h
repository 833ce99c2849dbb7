// What a ReplicaLog has taken down of a window of time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/time.h"
#include "run/record/run_listener.h"

namespace twin {

// Instants in the order in which they were taken down: those of one replica after those of another.
struct LogPage {
  // What a listener was told. Of the life: in `lives`, of a request that arrived or ended.
  struct Call {
    enum class Kind : std::uint8_t { kArrived, kGaps, kEnded };
    Kind kind{};
    bool by_plans = false;  // not by the events of the instant
    std::uint32_t life = 0;
    Duration gap{0};
    std::int64_t count = 0;
  };
  // An instant of a replica, or an arrival. Those of one replica at one time follow each other in
  // rounds: a step without duration is delivered at the time of its launch, behind the results and
  // plans of all replicas. There is one for each step: it has only what nearly every step needs.
  struct Entry {
    TimePoint time;
    // What the events told the listeners first, if `gaps` > 0: nearly always these gaps are all.
    Duration gap{0};
    Load change = {};
    std::uint32_t gaps = 0;
    std::uint32_t rank = 0;  // 2 * round + 1 for arrivals, which come behind results
    std::uint32_t first_call = 0;
    std::uint32_t calls = 0;  // those by events first
  };
  static_assert(sizeof(Entry) == 48);

  std::vector<Entry> entries;
  std::vector<Call> calls;
  std::vector<RequestLife> lives;

  // Empties the page but keeps its memory.
  void Clear() {
    entries.clear();
    calls.clear();
    lives.clear();
  }
};

}  // namespace twin
