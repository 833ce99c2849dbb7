#include "record/step_rows.h"

#include <cstdint>
#include <ostream>

#include "record/csv_columns.h"

namespace twin {

StepRows::StepRows(std::ostream& out) : out_(out) { out_ << HeaderLine(StepColumns()); }

void StepRows::OnStepEnded(const EndedStep& step) {
  const StepPlan& plan = step.plan;
  const StepTotals& totals = plan.totals;
  line_.Count(static_cast<std::int64_t>(Index(plan.id)))
      .Seconds(step.planned)
      .Seconds(step.started)
      .Seconds(step.finished)
      .Milliseconds(step.finished - step.started)
      .Count(totals.prefill_tokens)
      .Count(totals.decode_items)
      .Count(totals.padding_tokens)
      .Count(step.recomputed_tokens)
      .Count(static_cast<std::int64_t>(plan.work.size()))
      .Count(totals.prefill_context_tokens + totals.decode_context_tokens)
      .Count(static_cast<std::int64_t>(plan.preempted.size()))
      .Count(plan.free_blocks)
      .Count(plan.running)
      .Count(plan.waiting)
      .Count(plan.swapped)
      .WriteTo(out_);
}

}  // namespace twin
