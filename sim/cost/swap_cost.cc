#include "sim/cost/swap_cost.h"

#include <algorithm>

namespace twin::sim {

std::int64_t SwappedBlocks(const StepPlan& plan) {
  const bool swaps_out =
      std::any_of(plan.preempted.begin(), plan.preempted.end(),
                  [](const Preemption& p) { return p.how == Preemption::How::kSwap; });
  if (!swaps_out && plan.resumed.empty()) return 0;
  return std::count_if(plan.kv.begin(), plan.kv.end(), [](const KvOperation& operation) {
    return operation.kind == KvOperation::Kind::kSwapOut ||
           operation.kind == KvOperation::Kind::kSwapIn;
  });
}

}  // namespace twin::sim
