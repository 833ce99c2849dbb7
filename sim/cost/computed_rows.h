// How many rows a device computes in a step, where it computes more than the step has.
#pragma once

#include <cstdint>
#include <span>

#include "sched/step_plan.h"

namespace twin::sim {

struct ComputedRows {
  double tokens = 0;
  double logits = 0;
};

// Steps of decodes alone are padded to the next bucket (DeviceModel::decode_buckets); larger ones,
// steps with prefill, and all steps without buckets have the rows that they have. REQUIRES:
// buckets ascend.
ComputedRows ComputedRowsOf(const StepTotals& totals, std::span<const std::uint32_t> buckets);

}  // namespace twin::sim
