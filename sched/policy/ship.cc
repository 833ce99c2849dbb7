#include "sched/policy/ship.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "sched/step_builder.h"

namespace twin {
namespace {

constexpr CaseName kShipCaseNames[] = {{.name = "ship"}};

// The most requests that a slot ever holds.
std::int32_t RequestsPerSlot(const ShipConfig& config) {
  const std::int64_t others = std::int64_t{config.max_num_seqs} - 1;
  return static_cast<std::int32_t>(others / std::max(1, config.pipeline_parallel_size) + 1);
}

}  // namespace

std::span<const CaseName> ShipConfig::CaseNames() { return kShipCaseNames; }

PolicyTraits ShipConfig::Traits() const {
  PolicyTraits traits;
  traits.name = kName;
  traits.context_tokens_max = max_model_len;
  traits.outputs_end_at_context = true;
  traits.sequences_per_step_max = RequestsPerSlot(*this);
  traits.tokens_per_step_max = std::max(fill_tokens, traits.sequences_per_step_max);
  traits.steps_in_flight_max = pipeline_parallel_size;
  if (pipeline_parallel_size > 1) {
    traits.result_queue = ResultQueue::kPipeline;
    traits.overlaps_own_steps = prompt_slots == PromptSlots::kAll;
  }
  return traits;
}

ShipPolicy::ShipPolicy(const ShipConfig& config, std::int32_t blocks)
    : config_(config),
      traits_(config.Traits()),
      watermark_blocks_(
          static_cast<std::int32_t>(std::floor(config.watermark * static_cast<double>(blocks)))),
      slots_(static_cast<std::size_t>(config.pipeline_parallel_size)) {}

void ShipPolicy::Remove(const Sequence& sequence) {
  const RequestId id = sequence.id;
  for (Slot& slot : slots_) {
    if (std::erase(slot.requests, id) == 0) continue;
    std::erase(prompts_, id);
    --running_;
    return;
  }
  waiting_.Erase(id);
}

void ShipPolicy::StepReturned(const StepPlan& /*plan*/) {
  const std::size_t slot = in_flight_.PopFront();
  if (slot < slots_.size()) slots_[slot].in_flight = false;
}

void ShipPolicy::Plan(StepBuilder& step) {
  admits_ = !waiting_.empty();
  if (admits_) CountFewest();
  std::size_t slot = VisitSlots(step);
  if (slot == slots_.size()) slot = LendSlot(step);
  if (slot < slots_.size()) {
    slots_[slot].in_flight = true;
    next_slot_ = (slot + 1) % slots_.size();
  }
  // A step without work, as one that rejects, takes no slot.
  if (!step.plan().empty()) in_flight_.PushBack(slot);
}

std::size_t ShipPolicy::VisitSlots(StepBuilder& step) {
  for (std::size_t turn = 0; turn < slots_.size(); ++turn) {
    const std::size_t index = (next_slot_ + turn) % slots_.size();
    Slot& slot = slots_[index];
    if (slot.in_flight || (slot.requests.empty() && !admits_)) continue;
    Visit(step, slot);
    if (!step.plan().work.empty()) return index;
  }
  return slots_.size();
}

void ShipPolicy::Visit(StepBuilder& step, Slot& slot) {
  Decode(step, slot);
  const auto decodes = static_cast<std::int32_t>(step.plan().work.size());
  std::int32_t room = std::max(config_.fill_tokens - decodes, 1);
  for (const RequestId id : slot.requests) {
    if (room == 0) break;
    room -= ScheduleChunk(step, id, room);
  }
  Admit(step, slot, room);
}

void ShipPolicy::Decode(StepBuilder& step, Slot& slot) {
  for (std::size_t i = 0; i < slot.requests.size(); ++i) {
    const Sequence& s = step.sequence(slot.requests[i]);
    // The last chunk of a prompt can be in flight in another slot.
    if (!s.decodes || s.in_flight > 0) continue;
    if (!MakeRoom(step, slot, i)) return;
    step.Schedule(s, 1);
  }
}

bool ShipPolicy::MakeRoom(StepBuilder& step, Slot& slot, std::size_t index) {
  const RequestId id = slot.requests[index];
  while (!step.Grow(id, step.sequence(id).known)) {
    const RequestId victim = slot.requests.back();
    slot.requests.pop_back();
    std::erase(prompts_, victim);
    --running_;
    step.PreemptByRecompute(victim);
    waiting_.PushPreempted(victim, 0);
    admits_ = false;
    if (victim == id) return false;
  }
  return true;
}

std::int32_t ShipPolicy::ScheduleChunk(StepBuilder& step, RequestId id, std::int32_t room) {
  const Sequence& s = step.sequence(id);
  if (s.decodes) return 0;
  const std::int32_t tokens = std::min(s.known - s.computed, room);
  step.Schedule(s, tokens);
  if (s.decodes) std::erase(prompts_, id);
  return tokens;
}

void ShipPolicy::Admit(StepBuilder& step, Slot& slot, std::int32_t room) {
  while (admits_ && room > 0 && slot.requests.size() == fewest_) {
    const Head head = TryHead(step);
    if (head == Head::kWaits) {
      admits_ = false;
      return;
    }
    const RequestId id = waiting_.PopFront();
    admits_ = !waiting_.empty();
    if (head == Head::kRejected) continue;
    step.Admit(id);
    CHECK(step.Grow(id, step.sequence(id).known));
    slot.requests.push_back(id);
    prompts_.push_back(id);
    ++running_;
    room -= ScheduleChunk(step, id, room);
    CountFewest();
  }
}

ShipPolicy::Head ShipPolicy::TryHead(StepBuilder& step) const {
  const Sequence& s = step.sequence(waiting_.front());
  if (s.in_flight > 0) return Head::kWaits;
  const std::int32_t blocks = step.pool().BlocksFor(s.known);
  const bool too_long = config_.max_model_len > 0 && s.prompt_tokens >= config_.max_model_len;
  if (too_long || blocks > step.pool().usable()) {
    step.Reject(s.id, too_long ? RejectReason::kTooLongForModel : RejectReason::kTooLargeForCache);
    return Head::kRejected;
  }
  const std::int32_t kept = running_ > 0 ? watermark_blocks_ : 0;
  const bool fits = running_ < config_.max_num_seqs && blocks + kept <= step.pool().free();
  return fits ? Head::kFits : Head::kWaits;
}

std::size_t ShipPolicy::LendSlot(StepBuilder& step) {
  if (!traits_.overlaps_own_steps || prompts_.empty()) return slots_.size();
  for (std::size_t turn = 0; turn < slots_.size(); ++turn) {
    const std::size_t index = (next_slot_ + turn) % slots_.size();
    if (slots_[index].in_flight || !slots_[index].requests.empty()) continue;
    std::int32_t room = config_.fill_tokens;
    std::int32_t places = traits_.sequences_per_step_max;
    for (std::size_t i = 0; i < prompts_.size() && room > 0 && places > 0; --places) {
      const std::size_t before = prompts_.size();
      room -= ScheduleChunk(step, prompts_[i], room);
      if (prompts_.size() == before) ++i;
    }
    return index;
  }
  return slots_.size();
}

void ShipPolicy::CountFewest() {
  const auto size = [](const Slot& slot) { return slot.requests.size(); };
  fewest_ = size(*std::ranges::min_element(slots_, {}, size));
}

}  // namespace twin
