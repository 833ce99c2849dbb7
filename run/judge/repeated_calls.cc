#include "run/judge/repeated_calls.h"

#include <algorithm>

#include "sched/step_plan.h"

namespace twin::run {
namespace {

void Require(bool possible) {
  if (!possible) throw ImpossibleCall();
}

// Tokens that the whole cache holds: no call of a policy names more.
std::int64_t TokensMax(const StepBuilder& step) {
  return std::int64_t{step.pool().usable()} * step.pool().block_size();
}

bool IsWithin(std::int64_t value, std::int64_t low, std::int64_t high) {
  return value >= low && value <= high;
}

}  // namespace

RequestId RepeatedCalls::Known(RequestId shown) const {
  const std::uint32_t id = Index(shown) - id_shift_;
  Require(live_.contains(id));
  return RequestId{id};
}

void RepeatedCalls::Repeat(const StepCalls& calls, StepBuilder& step) {
  decodes_ = 0;
  for (const StepCall& call : calls.calls) {
    if (call.kind == StepCall::Kind::kScheduleDecodes) {
      RepeatDecodes(call, calls.decodes, step);
    } else {
      Repeat(call, step);
    }
  }
}

void RepeatedCalls::Repeat(const StepCall& call, StepBuilder& step) {
  using Kind = StepCall::Kind;
  const RequestId id = Known(call.request);
  const Sequence& s = step.sequence(id);
  const bool runs = s.state == SequenceState::kRunning;
  switch (call.kind) {
    case Kind::kAdmit:
      Require(s.state == SequenceState::kWaiting);
      return step.Admit(id);
    case Kind::kGrow:
      Require(runs && IsWithin(call.a, 1, TokensMax(step)));
      return Require(step.Grow(id, call.a));
    case Kind::kReserve:
      Require(runs && IsWithin(call.a, 0, step.pool().usable()));
      return Require(step.Reserve(id, call.a));
    case Kind::kSchedule:
      Require(runs && IsWithin(call.a, 1, TokensMax(step)) && (call.b == 0 || call.b >= call.a));
      return step.Schedule(id, call.a, call.b);
    case Kind::kUnschedule:
      Require(std::ranges::find(step.plan().work, id, &WorkItem::request) !=
              step.plan().work.end());
      return step.Unschedule(id);
    case Kind::kPreempt:
      Require(runs);
      return step.PreemptByRecompute(id);
    case Kind::kSwapOut:
      Require(runs && s.in_flight == 0);
      return Require(step.SwapOut(id));
    case Kind::kSwapIn:
      Require(s.state == SequenceState::kSwapped);
      return Require(step.SwapIn(id));
    case Kind::kReject:
      return RepeatReject(call, s, step);
    case Kind::kAttachPrefix:
    case Kind::kPublishPrefix:
      return RepeatCache(call, s, step);
    case Kind::kScheduleDecodes:
      break;
  }
  Require(false);
}

void RepeatedCalls::RepeatCache(const StepCall& call, const Sequence& s, StepBuilder& step) {
  Require(s.state == SequenceState::kRunning && call.a >= 0);
  if (call.kind == StepCall::Kind::kPublishPrefix) {
    Require(call.a <= std::min({s.computed, s.known, s.blocks.capacity_tokens}));
    return step.PublishPrefix(s, call.a);
  }
  Require(s.computed == 0 && s.blocks.held() == 0 && call.a <= step.LookupPrefix(s.id).blocks);
  // Cached blocks that nobody holds are free ones, which others may have reserved.
  Require(step.pool().Lookup(s.keys, call.a).free_blocks <= step.pool().free());
  step.AttachPrefix(s.id, call.a);
}

void RepeatedCalls::RepeatReject(const StepCall& call, const Sequence& s, StepBuilder& step) {
  const bool waits = s.state == SequenceState::kWaiting || s.state == SequenceState::kSwapped;
  Require(waits && s.blocks.held() == 0 && s.blocks.reserved_blocks == 0 &&
          IsWithin(call.a, 0, static_cast<int>(RejectReason::kOverloaded)));
  const RequestId id = s.id;
  live_.erase(Index(id));
  step.Reject(id, static_cast<RejectReason>(call.a));
}

void RepeatedCalls::RepeatDecodes(const StepCall& call, const std::vector<RequestId>& decodes,
                                  StepBuilder& step) {
  Require(call.a >= 0 && static_cast<std::size_t>(call.a) <= decodes.size() - decodes_);
  const auto count = static_cast<std::size_t>(call.a);
  ids_.clear();
  for (std::size_t i = 0; i < count; ++i) ids_.push_back(Known(decodes[decodes_++]));
  const DecodeLimits limits{.computed_max = call.b, .free_blocks_min = call.c};
  Require(step.ScheduleDecodes(ids_, limits) == count);
}

}  // namespace twin::run
