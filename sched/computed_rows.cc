#include "sched/computed_rows.h"

#include <algorithm>

namespace twin {
namespace {

struct StepSize {
  std::int64_t items = 0;
  std::int64_t tokens = 0;  // of the items
  std::int64_t padding = 0;
  std::int64_t logits = 0;
};

ComputedRows RowsOf(const StepSize& step, std::span<const std::uint32_t> buckets) {
  if (step.items > 0 && step.tokens == step.items && step.padding == 0) {
    const auto bucket = std::lower_bound(buckets.begin(), buckets.end(), step.items);
    if (bucket != buckets.end()) return {*bucket, *bucket, *bucket};
  }
  return {step.tokens + step.padding, step.logits, 0};
}

}  // namespace

bool IsSingleTokenStep(const StepTotals& totals) {
  return totals.prefill_tokens == totals.prefill_items;
}

ComputedRows ComputedRowsOf(const StepPlan& plan, std::span<const std::uint32_t> buckets) {
  StepSize step{.items = static_cast<std::int64_t>(plan.work.size()),
                .padding = plan.totals.padding_tokens};
  for (const WorkItem& item : plan.work) {
    step.tokens += item.tokens;
    step.logits += item.emits ? 1 + item.drafts : 0;
  }
  return RowsOf(step, buckets);
}

ComputedRows ComputedRowsOf(const StepTotals& totals, std::span<const std::uint32_t> buckets) {
  return RowsOf({.items = totals.prefill_items + totals.decode_items,
                 .tokens = totals.prefill_tokens + totals.decode_items,
                 .padding = totals.padding_tokens,
                 .logits = totals.logit_rows()},
                buckets);
}

}  // namespace twin
