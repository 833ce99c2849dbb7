// A part of a decode streak in one piece: what a world, an engine and observers otherwise tell each
// other step by step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ids.h"
#include "core/time.h"
#include "sched/event.h"
#include "sched/step_plan.h"

namespace twin {

// Instants of one replica that follow each other. At each of them the oldest step in flight
// returns, gives each of its requests the expected token, and nothing else happens; the engine then
// launches a step that repeats its latest one (StepPlan::repeats).
struct StreakPart {
  // Most moments of a part. Bounds its memory, and the time until a run can be stopped.
  static constexpr std::int64_t kMomentsMax = 1024;

  struct Moment {
    TimePoint now{};
    TimePoint started{};         // of the step that returns
    std::size_t filled_end = 0;  // end of its range in `filled`
    // The engine sets what follows, of the step that is launched.
    std::size_t kv_end = 0;        // end of its range in `kv`
    std::int32_t free_blocks = 0;  // as in StepPlan
  };

  std::int32_t replica = 0;
  StepId first_launched{};
  StepTotals first_totals;  // of that step
  std::vector<Moment> moments;
  std::vector<BlockFilled> filled;  // by the steps that return
  std::vector<KvOperation> kv;      // of the steps that are launched

  // The totals of the step that is launched at the moment with this index.
  [[nodiscard]] StepTotals TotalsAt(std::size_t moment) const {
    StepTotals totals = first_totals;
    totals.Repeat(static_cast<std::int64_t>(moment));
    return totals;
  }

  // Keeps the memory.
  void Clear() {
    moments.clear();
    filled.clear();
    kv.clear();
  }
};

}  // namespace twin
