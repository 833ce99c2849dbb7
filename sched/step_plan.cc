#include "sched/step_plan.h"

#include <algorithm>

namespace twin {

void StepPlan::Clear() {
  id = StepId{};
  repeats = {};
  kv.clear();
  work.clear();
  preempted.clear();
  admitted.clear();
  resumed.clear();
  released.clear();
  padding_rows.clear();
  rejected.clear();
  hits.clear();
  totals = StepTotals{};
  free_blocks_before = free_blocks = free_host_blocks = 0;
  waiting = running = swapped = 0;
}

void RecomputeContextMaxima(StepPlan& plan) {
  std::int64_t prefill_max = 0;
  std::int64_t decode_max = 0;
  for (const WorkItem& item : plan.work) {
    std::int64_t& longest = IsDecode(item) ? decode_max : prefill_max;
    longest = std::max<std::int64_t>(longest, item.start + item.tokens);
  }
  plan.totals.prefill_context_max = prefill_max;
  plan.totals.decode_context_max = decode_max;
}

}  // namespace twin
