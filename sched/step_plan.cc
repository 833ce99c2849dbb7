#include "sched/step_plan.h"

namespace twin {

void StepPlan::Clear() {
  id = StepId{};
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

}  // namespace twin
