// The cells of the rows of requests.csv and steps.csv, for files and for tables in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "run/record/csv_columns.h"
#include "run/record/run_listener.h"

namespace twin {

// Words of the column `status`, by RequestStatus.
inline constexpr std::array<std::string_view, 6> kRequestStatusNames = {
    "waiting", "running", "swapped", "completed", "rejected", "cancelled"};

// A Line takes the cells of one row in the order of the columns, as CsvLine does: Count, Seconds,
// Milliseconds, Word and Nothing.
template <class Line>
void AddTime(Line& line, TimePoint time) {
  if (time == kTimeNever) {
    line.Nothing();
  } else {
    line.Seconds(time);
  }
}

template <class Line>
void AddDuration(Line& line, bool defined, Duration duration) {
  if (defined) {
    line.Milliseconds(duration);
  } else {
    line.Nothing();
  }
}

// The cells of RequestColumns(further).
template <class Line>
void AddRequestCells(Line& line, const RequestLife& life, const FurtherColumns& further) {
  const bool boundary = further.boundary;
  const bool completed = life.status == RequestStatus::kCompleted;
  const bool paced = life.has_gaps();
  line.Count(Index(life.id)).Count(life.tenant).Count(life.priority).Seconds(life.arrival);
  AddTime(line, life.scheduled);
  AddTime(line, life.has_tokens() ? life.first_received() : kTimeNever);
  AddTime(line, completed ? life.last_received() : kTimeNever);
  line.Count(life.prompt_tokens).Count(life.output_tokens).Count(life.cached_tokens);
  line.Count(life.preemptions);
  AddDuration(line, life.scheduled != kTimeNever,
              life.scheduled - (boundary ? life.reached : life.arrival));
  AddDuration(line, life.has_tokens(), life.first_received() - life.arrival);
  const std::int64_t gaps = paced ? life.output_tokens - 1 : 1;
  AddDuration(line, completed && paced,
              Duration{((life.ended - life.first_token).count() + gaps / 2) / gaps});
  AddDuration(line, completed, life.last_received() - life.arrival);
  AddDuration(line, paced, life.longest_gap);
  line.Word(kRequestStatusNames[static_cast<std::size_t>(life.status)]);
  const bool rejected = life.status == RequestStatus::kRejected;
  line.Word(rejected ? kRejectReasonNames[static_cast<std::size_t>(life.reject_reason)] : "");
  if (boundary) {
    AddTime(line, life.reached);
    AddTime(line, life.first_token);
    AddTime(line, completed ? life.ended : kTimeNever);
    AddDuration(line, life.has_tokens(), life.first_token - life.reached);
    AddDuration(line, completed, life.ended - life.reached);
  }
  if (further.replica) line.Count(life.replica);
}

// The cells of StepColumns(further).
template <class Line>
void AddStepCells(Line& line, const EndedStep& step, const FurtherColumns& further) {
  const StepPlan& plan = step.plan;
  const StepTotals& totals = plan.totals;
  line.Count(static_cast<std::int64_t>(Index(plan.id)))
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
      .Count(plan.swapped);
  if (further.replica) line.Count(plan.replica);
}

}  // namespace twin
