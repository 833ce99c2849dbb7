#include "sched/policy/closed_batch.h"

#include <algorithm>

#include "core/check.h"
#include "sched/policy/ordered_queue.h"
#include "sched/step_builder.h"

namespace twin {

ClosedBatch::Offered ClosedBatch::TryAddRow(StepBuilder& step, RequestId id,
                                            std::int32_t rows_max) {
  const Sequence& s = step.sequence(id);
  const bool full = static_cast<std::int32_t>(live_.size()) >= rows_max;
  // Trimmed, the original looks at the head before it counts the rows.
  if (padded_ && full) return Offered::kNoRoom;
  if (Rejects(step, s)) return Offered::kRejected;
  if (full) return Offered::kNoRoom;
  const bool taken = padded_ ? TakePadded(step, s) : TakeTrimmed(step, s);
  if (!taken) return Offered::kNoRoom;
  live_.push_back(id);
  return Offered::kTaken;
}

bool ClosedBatch::TryAddFront(StepBuilder& step, OrderedQueue& waiting, std::int32_t rows_max) {
  if (waiting.empty()) return false;
  const Sequence& s = step.sequence(waiting.front());
  const Offered offered = TryAddRow(step, s.id, rows_max);
  if (offered == Offered::kNoRoom) return false;
  waiting.PopFront();
  if (offered == Offered::kTaken) waiting.Admitted(s);
  return true;
}

bool ClosedBatch::Rejects(StepBuilder& step, const Sequence& s) const {
  const bool too_long = !padded_ && s.prompt_tokens > max_model_len_;
  const std::int32_t tokens = padded_ ? s.prompt_tokens + s.max_output_tokens : max_model_len_;
  if (!too_long && step.pool().BlocksFor(tokens) <= step.pool().usable()) return false;
  step.Reject(s.id, too_long ? RejectReason::kTooLongForModel : RejectReason::kTooLargeForCache);
  return true;
}

bool ClosedBatch::TakePadded(StepBuilder& step, const Sequence& s) {
  if (live_.empty()) prompt_max_ = output_max_ = 0;
  const std::int32_t prompt = std::max(prompt_max_, s.prompt_tokens);
  const std::int32_t output = std::max(output_max_, s.max_output_tokens);
  const auto rows = static_cast<std::int64_t>(live_.size()) + 1;
  if (rows * step.pool().BlocksFor(prompt + output) > step.pool().free()) return false;
  prompt_max_ = prompt;
  output_max_ = output;
  return true;
}

bool ClosedBatch::TakeTrimmed(StepBuilder& step, const Sequence& s) const {
  const std::int32_t row_blocks = step.pool().BlocksFor(max_model_len_);
  if (row_blocks > step.pool().free()) return false;
  step.Admit(s.id);
  CHECK(step.Reserve(s.id, row_blocks));
  return true;
}

void ClosedBatch::Begin(StepBuilder& step) {
  const std::int32_t row_blocks = step.pool().BlocksFor(prompt_max_ + output_max_);
  for (const RequestId id : live_) {
    if (padded_) {
      step.Admit(id);
      CHECK(step.Reserve(id, row_blocks));
    }
    const std::int32_t prompt = step.sequence(id).prompt_tokens;
    CHECK(step.Grow(id, prompt));
    step.Schedule(id, prompt, padded_ ? prompt_max_ : 0);
  }
}

void ClosedBatch::Decode(StepBuilder& step) {
  for (std::size_t i = 0; i < live_.size(); ++i) {
    i += step.ScheduleDecodes({&live_[i], live_.size() - i});
    if (i == live_.size()) break;
    const Sequence& s = step.sequence(live_[i]);
    CHECK(step.Grow(s, s.known));
    step.Schedule(s, 1);
  }
  for (const RequestId id : done_) step.PadRow(id, 1);
}

bool ClosedBatch::Remove(RequestId id) {
  if (std::erase(live_, id) == 0) return false;
  if (padded_) done_.push_back(id);
  return true;
}

void ClosedBatch::CollectReleases(std::vector<RequestId>& finished) {
  if (!live_.empty()) return;
  finished.insert(finished.end(), done_.begin(), done_.end());
  done_.clear();
}

}  // namespace twin
