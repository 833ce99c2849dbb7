#include "sched/policy/splitwise.h"

#include <algorithm>

#include "core/check.h"
#include "sched/policy/field_check.h"
#include "sched/policy/length_limit.h"
#include "sched/step_builder.h"

namespace twin {
namespace {

constexpr CaseName kSplitwiseCaseNames[] = {{.name = "splitwise"}};

bool DecodesHere(const Sequence& s) { return !s.prefill_only && s.max_output_tokens > 1; }

}  // namespace

std::span<const CaseName> SplitwiseConfig::CaseNames() { return kSplitwiseCaseNames; }

void SplitwiseConfig::Validate() const {}

PolicyTraits SplitwiseConfig::Traits() const {
  PolicyTraits traits;
  traits.name = kName;
  traits.memory_rule = "vllm_v0";
  traits.step_engine = "v0";
  traits.context_tokens_max = max_model_len;
  traits.outputs_end_at_context = true;
  traits.sized_for_tokens = std::max(max_batch_tokens, max_model_len);
  traits.sequences_per_step_max = max_batch_size;
  traits.preempts = false;
  traits.receives_kv = true;
  traits.mixes_phases = true;
  return traits;
}

SplitwisePolicy::SplitwisePolicy(const SplitwiseConfig& config)
    : config_(config), traits_(config.Traits()) {}

void SplitwisePolicy::Enqueue(const Sequence& sequence) {
  const bool elsewhere = sequence.remote == RemoteKv::kElsewhere;
  (elsewhere ? bridge_ : prompts_).PushBack(sequence.id);
  waits_.OpenInAnyOrder(sequence.id) = {.waits = true};
  entered_.push_back(sequence.id);
}

void SplitwisePolicy::Remove(const Sequence& sequence) {
  const RequestId id = sequence.id;
  waits_.Close(id);
  for (std::vector<RequestId>* ids : {&batch_, &computed_, &arriving_, &paused_, &fresh_}) {
    if (std::erase(*ids, id) > 0) return;
  }
  CHECK(prompts_.Erase(id) || bridge_.Erase(id));
}

std::optional<DecodeLimits> SplitwisePolicy::DecodeStreakLimits() const {
  // Who was refused blocks gets none while nobody leaves.
  if (!stands_still_) return std::nullopt;
  return DecodeLimits{};
}

void SplitwisePolicy::Plan(StepBuilder& step) {
  now_ = {.number = Index(step.plan().id)};
  next_batch_.clear();
  for (const RequestId id : entered_) {
    if (Wait* const wait = waits_.Find(id)) wait->since = now_.number;
  }
  entered_.clear();
  CollectReady(step);
  now_.prompts_end = AcceptTransfers(step);
  TakeAged(step);
  TakePrompts(step);
  TakeDecodes(step, paused_);
  ContinueBatch();
  TakeDecodes(step, fresh_);
  FinishSelection(step);
  if (!step.plan().work.empty() || !ForgoTransfers(step)) return;
  now_.prompts_end = false;
  TakePrompts(step);
}

void SplitwisePolicy::CollectReady(const StepBuilder& step) {
  const auto begin_wait = [&](RequestId id) {
    waits_[id] = {.waits = true, .since = now_.number};
    fresh_.insert(std::lower_bound(fresh_.begin(), fresh_.end(), id), id);
  };
  for (const RequestId id : computed_) begin_wait(id);
  computed_.clear();
  std::erase_if(arriving_, [&](RequestId id) {
    if (step.sequence(id).remote != RemoteKv::kArrived) return false;
    begin_wait(id);
    return true;
  });
}

bool SplitwisePolicy::AcceptTransfers(StepBuilder& step) {
  while (!bridge_.empty()) {
    const Sequence& s = step.sequence(bridge_.front());
    const std::int32_t tokens = ReservedTokens(s);
    const std::int32_t blocks = step.pool().BlocksFor(tokens);
    if (blocks > step.pool().usable()) {
      waits_.Close(s.id);
      step.Reject(bridge_.PopFront(), RejectReason::kTooLargeForCache);
      continue;
    }
    if (blocks > step.pool().free()) return HasAged(s.id);
    step.AwaitTransfer(s.id, 0, tokens);
    arriving_.push_back(bridge_.PopFront());
    now_.changes = true;
  }
  return false;
}

bool SplitwisePolicy::ForgoTransfers(StepBuilder& step) {
  // True if no request that holds memory here can give it back.
  const bool stuck = batch_.empty() && paused_.empty() && fresh_.empty() && arriving_.empty();
  if (!stuck || bridge_.empty()) return false;
  while (!bridge_.empty()) {
    const RequestId id = bridge_.PopBack();
    step.ForgoTransfer(id);
    prompts_.PushFront(id);
  }
  return true;
}

void SplitwisePolicy::TakeAged(StepBuilder& step) {
  aged_.clear();
  for (const auto* ids : {&paused_, &fresh_}) {
    std::copy_if(ids->begin(), ids->end(), std::back_inserter(aged_),
                 [this](RequestId id) { return HasAged(id); });
  }
  std::sort(aged_.begin(), aged_.end());
  const auto prompt_is_next = [this](const RequestId* decode) {
    if (now_.prompts_end || prompts_.empty() || !HasAged(prompts_.front())) return false;
    return decode == nullptr || prompts_.front() < *decode;
  };
  for (const RequestId& id : aged_) {
    while (prompt_is_next(&id)) TakePrompt(step);
    if (!TakeDecode(step, id)) break;
  }
  while (prompt_is_next(nullptr)) TakePrompt(step);
  if (aged_.empty()) return;
  for (std::vector<RequestId>* ids : {&paused_, &fresh_}) {
    std::erase_if(*ids, [this](RequestId id) { return !waits_[id].waits; });
  }
}

void SplitwisePolicy::TakePrompts(StepBuilder& step) {
  while (!now_.prompts_end && !prompts_.empty()) TakePrompt(step);
}

void SplitwisePolicy::TakePrompt(StepBuilder& step) {
  const Sequence& s = step.sequence(prompts_.front());
  const bool too_long = config_.max_model_len > 0 && s.prompt_tokens > config_.max_model_len;
  const std::int32_t tokens = DecodesHere(s) ? ReservedTokens(s) : s.known;
  const std::int32_t blocks = step.pool().BlocksFor(tokens);
  if (too_long || blocks > step.pool().usable()) {
    waits_.Close(s.id);
    prompts_.PopFront();
    step.Reject(s.id, too_long ? RejectReason::kTooLongForModel : RejectReason::kTooLargeForCache);
    return;
  }
  const bool has_room = HasRoomFor(s.known);
  if (!has_room || blocks > step.pool().free()) {
    now_.prompts_end = true;
    now_.changes |= !has_room;
    return;
  }
  prompts_.PopFront();
  step.Admit(s.id);
  CHECK(step.Grow(s, tokens));
  step.Schedule(s, s.known);
  ++now_.requests;
  now_.tokens += s.known;
  now_.changes = true;
  waits_[s.id].waits = false;
  computed_.push_back(s.id);
}

bool SplitwisePolicy::TakeDecode(StepBuilder& step, RequestId id) {
  if (!HasRoomFor(1)) return false;
  if (step.sequence(id).state == SequenceState::kWaiting) step.Admit(id);
  ++now_.requests;
  ++now_.tokens;
  now_.changes = true;
  Wait& wait = waits_[id];
  wait = {.steps = wait.steps + now_.number - wait.since};
  next_batch_.push_back(id);
  return true;
}

void SplitwisePolicy::TakeDecodes(StepBuilder& step, std::vector<RequestId>& decodes) {
  auto id = decodes.begin();
  while (id != decodes.end() && TakeDecode(step, *id)) ++id;
  decodes.erase(decodes.begin(), id);
}

void SplitwisePolicy::ContinueBatch() {
  auto id = batch_.begin();
  for (; id != batch_.end() && HasRoomFor(1); ++id) {
    ++now_.requests;
    ++now_.tokens;
    next_batch_.push_back(*id);
  }
  batch_.erase(batch_.begin(), id);
}

void SplitwisePolicy::FinishSelection(StepBuilder& step) {
  for (const RequestId id : batch_) {
    Wait& wait = waits_[id];
    wait.waits = true;
    wait.since = now_.number;
    paused_.push_back(id);
  }
  batch_.swap(next_batch_);
  CHECK(step.ScheduleDecodes(batch_) == batch_.size());
  stands_still_ = !now_.changes && paused_.empty() && fresh_.empty();
}

std::int32_t SplitwisePolicy::ReservedTokens(const Sequence& s) const {
  return LengthLimit(s, config_.max_model_len);
}

bool SplitwisePolicy::HasRoomFor(std::int32_t tokens) const {
  if (now_.requests == config_.max_batch_size) return false;
  return now_.requests == 0 || now_.tokens + tokens <= config_.max_batch_tokens;
}

bool SplitwisePolicy::HasAged(RequestId id) const {
  const Wait& wait = waits_[id];
  const std::uint64_t steps = wait.steps + now_.number - wait.since;
  return steps >= static_cast<std::uint64_t>(config_.max_preemptions);
}

}  // namespace twin
