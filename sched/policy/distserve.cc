#include "sched/policy/distserve.h"

#include <algorithm>

#include "core/check.h"
#include "sched/policy/field_check.h"
#include "sched/step_builder.h"

namespace twin {
namespace {

std::int32_t BlocksNeeded(const StepBuilder& step, const Sequence& s) {
  return step.pool().BlocksFor(s.known);
}

// Blocks for the next token of a sequence that holds blocks.
std::int32_t BlocksMissing(const StepBuilder& step, const Sequence& s) {
  return BlocksNeeded(step, s) - s.blocks.held();
}

bool NeverFits(const StepBuilder& step, const Sequence& s) {
  return BlocksNeeded(step, s) > step.pool().usable();
}

// Rejects the requests at the head of the queue that no cache of this size can hold.
void RejectTooLarge(StepBuilder& step, RingQueue<RequestId>& queue) {
  while (!queue.empty() && NeverFits(step, step.sequence(queue.front()))) {
    step.Reject(queue.PopFront(), RejectReason::kTooLargeForCache);
  }
}

}  // namespace

void DistServeConfig::Validate() const {
  const double share = waiting_block_prop_threshold;
  RequireField(share > 0 && share <= 1, "distserve.waiting_block_prop_threshold", share,
               "must be above 0 and at most 1");
}

PolicyTraits DistServeConfig::Traits() const {
  PolicyTraits traits;
  traits.name = kName;
  traits.memory_rule = "vllm_v0";
  traits.step_engine = "v0";
  traits.context_tokens_max = max_model_len;
  traits.outputs_end_at_context = true;
  traits.sized_for_tokens = context_max_tokens_per_batch;
  traits.sequences_per_step_max = std::max(context_max_batch_size, decoding_max_batch_size);
  traits.steps_in_flight_max = pipeline_parallel_size;
  if (pipeline_parallel_size > 1) traits.result_queue = ResultQueue::kPipeline;
  traits.swaps_to_host = true;
  traits.receives_kv = true;
  traits.needs_disaggregation = true;
  return traits;
}

DistServePolicy::DistServePolicy(const DistServeConfig& config, std::int32_t blocks)
    : config_(config),
      traits_(config.Traits()),
      // A token each.
      batch_max_(static_cast<std::size_t>(
          std::min(config.decoding_max_batch_size, config.decoding_max_tokens_per_batch))),
      waiting_blocks_max_(blocks * config.waiting_block_prop_threshold),
      slots_(static_cast<std::size_t>(config.pipeline_parallel_size)) {}

void DistServePolicy::Enqueue(const Sequence& sequence) {
  const bool elsewhere = sequence.remote == RemoteKv::kElsewhere;
  (elsewhere ? bridge_ : prompts_).PushBack(sequence.id);
}

void DistServePolicy::Remove(const Sequence& sequence) {
  const RequestId id = sequence.id;
  for (Slot& slot : slots_) {
    if (std::erase(slot.batch, id) > 0) return;
  }
  CHECK(prompts_.Erase(id) || bridge_.Erase(id) || waiting_.Erase(id) || swapped_.Erase(id));
}

void DistServePolicy::StepReturned(const StepPlan& plan) {
  for (Slot& slot : slots_) {
    if (slot.step == plan.id) slot.step.reset();
  }
}

std::optional<DecodeLimits> DistServePolicy::DecodeStreakLimits() const {
  // A request that was refused blocks or a place gets none while the batch grows.
  if (!stands_still_ || slots_.size() > 1) return std::nullopt;
  return DecodeLimits{};
}

void DistServePolicy::Plan(StepBuilder& step) {
  stands_still_ = true;
  Accept(step);
  // A batch with nothing to do gives its turn to the next one.
  for (std::size_t turn = 0; turn < slots_.size() && step.plan().work.empty(); ++turn) {
    Slot& slot = slots_[next_slot_];
    next_slot_ = (next_slot_ + 1) % slots_.size();
    if (slot.step) continue;
    if (!Prefill(step, slot)) Decode(step, slot);
    if (!step.plan().work.empty()) slot.step = step.plan().id;
  }
}

void DistServePolicy::Accept(StepBuilder& step) {
  const KvPool& pool = step.pool();
  std::int32_t waiting_blocks = 0;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    waiting_blocks += step.sequence(waiting_[i]).blocks.held();
  }
  for (RejectTooLarge(step, bridge_); !bridge_.empty(); RejectTooLarge(step, bridge_)) {
    const Sequence& s = step.sequence(bridge_.front());
    const std::int32_t blocks = pool.BlocksFor(s.remote_tokens);
    // Blocks that the first request to join needs next stay free if no request can free them.
    const Sequence& first = waiting_.empty() ? s : step.sequence(waiting_.front());
    const std::int32_t kept =
        NobodyRuns() ? BlocksNeeded(step, first) - pool.BlocksFor(first.remote_tokens) : 0;
    if (waiting_blocks >= waiting_blocks_max_ || blocks + kept > pool.free()) break;
    step.AwaitTransfer(s.id, 0, s.remote_tokens);
    waiting_.PushBack(bridge_.PopFront());
    waiting_blocks += blocks;
  }
}

bool DistServePolicy::Prefill(StepBuilder& step, Slot& slot) {
  const auto batch_max = static_cast<std::size_t>(config_.context_max_batch_size);
  std::int32_t tokens = 0;
  while (!prompts_.empty() && step.plan().work.size() < batch_max) {
    const Sequence& s = step.sequence(prompts_.front());
    const bool too_long = s.prompt_tokens > config_.context_max_tokens_per_batch ||
                          (config_.max_model_len > 0 && s.prompt_tokens > config_.max_model_len);
    if (too_long || NeverFits(step, s)) {
      step.Reject(s.id,
                  too_long ? RejectReason::kTooLongForModel : RejectReason::kTooLargeForCache);
      prompts_.PopFront();
      continue;
    }
    // A request that is computed again may be longer than a prompt.
    if (tokens > 0 && tokens + s.known > config_.context_max_tokens_per_batch) break;
    const bool decodes_here = !s.prefill_only && s.max_output_tokens > 1;
    if (decodes_here && IsFull(slot)) break;
    if (BlocksNeeded(step, s) > step.pool().free()) break;
    prompts_.PopFront();
    step.Admit(s.id);
    CHECK(step.Grow(s, s.known));
    step.Schedule(s, s.known);
    slot.batch.push_back(s.id);
    tokens += s.known;
  }
  return tokens > 0;
}

void DistServePolicy::Decode(StepBuilder& step, Slot& slot) {
  std::int32_t room = step.pool().free() - MissingBlocks(step);
  ChooseVictims(step, slot, room);
  ChooseSwapped(step, slot, room);
  Swap(step);
  AddWaiting(step, slot, room);
  // Blocks for the other batches of the pipeline can be missing still.
  CHECK(room >= 0 || slot.batch.empty());
  CHECK(step.ScheduleDecodes(slot.batch) == slot.batch.size());
}

void DistServePolicy::ChooseVictims(const StepBuilder& step, Slot& slot, std::int32_t& room) {
  victims_.clear();
  while (room < 0 && !slot.batch.empty()) {
    victims_.push_back(slot.batch.back());
    slot.batch.pop_back();
    room += BlocksNeeded(step, step.sequence(victims_.back()));
  }
}

void DistServePolicy::ChooseSwapped(StepBuilder& step, Slot& slot, std::int32_t& room) {
  resumed_.clear();
  const auto fits = [&](RequestId id) {
    const std::int32_t blocks = BlocksNeeded(step, step.sequence(id));
    if (IsFull(slot) || blocks > room) return false;
    room -= blocks;
    slot.batch.push_back(id);
    return true;
  };
  for (RejectTooLarge(step, swapped_); !swapped_.empty() && fits(swapped_.front());
       RejectTooLarge(step, swapped_)) {
    resumed_.push_back(swapped_.PopFront());
  }
  if (!swapped_.empty()) return;
  const auto leaves = std::find_if_not(victims_.begin(), victims_.end(), fits);
  if (leaves != victims_.begin()) stands_still_ = false;
  victims_.erase(victims_.begin(), leaves);
}

void DistServePolicy::Swap(StepBuilder& step) {
  for (const RequestId id : victims_) {
    if (step.SwapOut(id)) {
      swapped_.PushBack(id);
    } else {
      step.PreemptByRecompute(id);
      prompts_.PushFront(id);
    }
  }
  for (const RequestId id : resumed_) CHECK(step.SwapIn(id));
  if (!victims_.empty() || !resumed_.empty()) stands_still_ = false;
}

void DistServePolicy::AddWaiting(StepBuilder& step, Slot& slot, std::int32_t& room) {
  while (!waiting_.empty() && !IsFull(slot)) {
    const Sequence& s = step.sequence(waiting_.front());
    if (s.remote != RemoteKv::kArrived) break;
    const std::int32_t missing = BlocksMissing(step, s);
    const bool fits = swapped_.empty() && BlocksNeeded(step, s) <= room;
    if (!fits && !(NobodyRuns() && missing <= room)) break;
    room -= missing;
    step.Admit(s.id);
    slot.batch.push_back(waiting_.PopFront());
    stands_still_ = false;
  }
}

std::int32_t DistServePolicy::MissingBlocks(const StepBuilder& step) const {
  std::int32_t missing = 0;
  for (const Slot& slot : slots_) {
    for (const RequestId id : slot.batch) missing += BlocksMissing(step, step.sequence(id));
  }
  return missing;
}

bool DistServePolicy::NobodyRuns() const {
  return std::all_of(slots_.begin(), slots_.end(),
                     [](const Slot& slot) { return slot.batch.empty(); });
}

}  // namespace twin
