// How many rows a device computes in a step: the rule that executors follow and cost models charge.
#pragma once

#include <cstdint>
#include <span>

#include "sched/step_plan.h"

namespace twin {

struct ComputedRows {
  std::int64_t tokens = 0;  // rows of every per-token operation, padding included
  std::int64_t logits = 0;  // rows of the LM head
  std::int64_t bucket = 0;  // size that the step is padded to; 0 = it is not padded to a bucket

  bool operator==(const ComputedRows&) const = default;
};

// Every work item computes one token: decodes, and prefills of one token (a prompt of one token, or
// the rest of a prompt after a prefix hit).
[[nodiscard]] bool IsSingleTokenStep(const StepTotals& totals);

// 1. A single-token step without padding of its own is padded to the smallest bucket that holds its
//    items, and every row of the bucket gets logits.
// 2. Any other step, and a step larger than the last bucket, computes its own tokens and the
// padding
//    that the plan asks for (finished rows of a static batch), with logits for emitting items only.
// `buckets` ascend and are the sizes that the device has prepared; none on a device that does not
// pad. The two overloads agree on every plan that an engine makes; the first reads the work items,
// the second takes constant time.
[[nodiscard]] ComputedRows ComputedRowsOf(const StepPlan& plan,
                                          std::span<const std::uint32_t> buckets);
[[nodiscard]] ComputedRows ComputedRowsOf(const StepTotals& totals,
                                          std::span<const std::uint32_t> buckets);

}  // namespace twin
