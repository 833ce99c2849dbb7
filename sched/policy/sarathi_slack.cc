// Sarathi with chunks as large as the deadlines of the decodes allow (slack_chunking.h).
#include <algorithm>

#include "core/check.h"
#include "sched/policy/sarathi.h"
#include "sched/step_builder.h"

namespace twin {

// All requests that fit hold memory, so that the most urgent of all prompts is computed first,
// whenever it arrived.
void SarathiPolicy::PlanWithinSlack(StepBuilder& step) {
  RunningPass(step);
  if (victims_.empty()) AdmitPrompts(step);
  std::int64_t context = 0;
  Duration slack = Duration::max();
  for (const RequestId id : decodes_) {
    const Sequence& s = step.sequence(id);
    context += s.known;
    slack = std::min(slack, NextTokenDue(waiting_.order(), s) - step.now());
  }
  chunk_limit_ = config_.slack_chunking->TokensWithin(slack, context, config_.chunk_size);
  SortPrompts(step);
  SchedulePrefills(step);
  ScheduleDecodes(step);
}

void SarathiPolicy::AdmitPrompts(StepBuilder& step) {
  while (!waiting_.empty()) {
    const RequestId id = waiting_.front();
    if (RejectIfNever(step, id)) continue;
    const Sequence& s = step.sequence(id);
    if (!HasRoom(step, s)) break;
    waiting_.PopFront();
    waiting_.Admitted(s);
    step.Admit(id);
    CHECK(step.Grow(id, s.known));
    running_.push_back(id);
    prefills_.push_back(id);
  }
}

// By the time at which the first token is due. Prompts that will miss it are relegated, unless they
// have begun.
void SarathiPolicy::SortPrompts(const StepBuilder& step) {
  const OrderConfig& order = waiting_.order();
  const auto is_relegated = [this](RequestId id) { return relegated_.contains(id); };
  if (config_.slack_chunking->relegates) {
    for (const RequestId id : prefills_) {
      const Sequence& s = step.sequence(id);
      const Duration needed = config_.slack_chunking->token_time * (s.known - s.computed);
      if (s.computed == 0 && step.now() + needed > NextTokenDue(order, s)) relegated_.insert(id);
    }
  }
  std::sort(prefills_.begin(), prefills_.end(), [&](RequestId a, RequestId b) {
    if (is_relegated(a) != is_relegated(b)) return is_relegated(b);
    const TimePoint due = NextTokenDue(order, step.sequence(a));
    const TimePoint other = NextTokenDue(order, step.sequence(b));
    return due != other ? due < other : a < b;
  });
}

}  // namespace twin
