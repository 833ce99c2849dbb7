#include "sched/policy/splitfuse.h"

#include <algorithm>

#include "core/check.h"
#include "sched/step_builder.h"

namespace twin {

PolicyTraits SplitFuseConfig::Traits() const {
  PolicyTraits traits;
  traits.name = "splitfuse";
  traits.memory_rule = "mii";
  traits.context_tokens_max = max_length;
  traits.tokens_per_step_max = max_ragged_batch_size;
  traits.sequences_per_step_max = max_ragged_sequence_count;
  traits.first_come_first_served = false;
  traits.defers_release = true;
  return traits;
}

SplitFusePolicy::SplitFusePolicy(const SplitFuseConfig& config)
    : config_(config), traits_(config.Traits()) {}

void SplitFusePolicy::Enqueue(const Sequence& sequence) { arrived_.push_back(sequence.id); }

void SplitFusePolicy::Remove(const Sequence& sequence) {
  std::erase(buffer_, sequence.id);
  std::erase(arrived_, sequence.id);
  std::erase(continuing_, sequence.id);
  if (sequence.blocks.held() > 0) flushes_.push_back(sequence.id);
}

void SplitFusePolicy::StepReturned(const StepPlan& plan) {
  starvation_.TokensEmitted(plan.totals.emitting_items);
  std::size_t count = continuing_.size();
  continuing_.resize(count + plan.work.size());
  for (const WorkItem& item : plan.work) {
    continuing_[count] = item.request;
    count += item.emits ? 1 : 0;
  }
  continuing_.resize(count);
  for (const RequestId ended : flushes_) std::erase(continuing_, ended);
}

void SplitFusePolicy::Plan(StepBuilder& step) {
  // Arrivals reached the queue while the pass ran, its continuing decodes after it.
  buffer_.insert(buffer_.end(), arrived_.begin(), arrived_.end());
  buffer_.insert(buffer_.end(), continuing_.begin(), continuing_.end());
  arrived_.clear();
  continuing_.clear();
  free_blocks_ = step.pool().free();
  promised_blocks_ = tokens_ = sequences_ = 0;
  kept_.clear();
  DecodePass(step);
  PromptPass(step);
  buffer_.swap(kept_);
  if (step.plan().work.empty() && flushes_.empty() && !buffer_.empty()) EvictLast(step);
  // Blocks of finished requests become free behind this pass's decision.
  for (const RequestId id : flushes_) step.Release(id);
  flushes_.clear();
}

// Leaves in unserved_ what it does not schedule, in the order of the buffer.
void SplitFusePolicy::DecodePass(StepBuilder& step) {
  unserved_.clear();
  const std::int32_t limit =
      std::min(config_.max_ragged_sequence_count, config_.max_ragged_batch_size);
  std::int32_t examined = 0;
  for (std::size_t i = 0; i < buffer_.size();) {
    const std::size_t most =
        std::min(buffer_.size() - i, static_cast<std::size_t>(limit - examined));
    const std::size_t served = step.ScheduleDecodes({&buffer_[i], most});
    i += served;
    examined += static_cast<std::int32_t>(served);
    tokens_ += static_cast<std::int32_t>(served);
    if (i == buffer_.size()) break;
    // A prompt, a decode for which no block is left, or one more than may be examined.
    if (examined < limit && step.sequence(buffer_[i]).decodes) ++examined;
    unserved_.push_back(buffer_[i++]);
  }
  sequences_ = tokens_;
  promised_blocks_ = free_blocks_ - step.pool().free();
}

void SplitFusePolicy::PromptPass(StepBuilder& step) {
  const KvPool& pool = step.pool();
  bool stopped = free_blocks_ == 0;
  for (const RequestId id : unserved_) {
    const Sequence& s = step.sequence(id);
    const std::int32_t remaining = s.known - s.computed;
    if (!s.decodes && s.blocks.held() == 0 &&
        (pool.BlocksFor(s.known) > pool.usable() || s.prompt_tokens > config_.max_length)) {
      step.Reject(id, s.prompt_tokens > config_.max_length ? RejectReason::kTooLongForModel
                                                           : RejectReason::kTooLargeForCache);
      continue;
    }
    const std::int32_t room = config_.max_ragged_batch_size - tokens_;
    const std::int32_t blocks_left = free_blocks_ - promised_blocks_;
    const std::int32_t blocks = pool.BlocksFor(s.known) - s.blocks.held();
    stopped = stopped || (!s.decodes && (sequences_ >= config_.max_ragged_sequence_count ||
                                         room <= 0 || (remaining > 1 && blocks > blocks_left)));
    if (s.decodes || stopped || blocks > blocks_left) {
      kept_.push_back(id);
      continue;
    }
    const std::int32_t tokens = std::min(remaining, room);
    if (s.blocks.held() == 0) step.Admit(id);
    const std::int32_t held = s.blocks.held();
    CHECK(step.Grow(id, s.computed + tokens));
    promised_blocks_ += s.blocks.held() - held;
    step.Schedule(id, tokens);
    tokens_ += tokens;
    ++sequences_;
    if (tokens < remaining) kept_.insert(kept_.begin(), id);
  }
}

// The last holder of blocks starts over, as a new prompt at the back.
void SplitFusePolicy::EvictLast(StepBuilder& step) {
  for (std::size_t i = buffer_.size(); i-- > 0;) {
    const RequestId id = buffer_[i];
    const Sequence& s = step.sequence(id);
    if (s.computed == 0) continue;
    // DeepSpeed-MII stops a prompt when no block is free, even one that has all its blocks: alone
    // it would be evicted and started over for ever.
    const bool complete = !s.decodes && s.blocks.held() == step.pool().BlocksFor(s.known);
    if (complete && starvation_.DeniesAgain()) {
      Continue(step, i);
      return;
    }
    step.PreemptByRecompute(id);
    buffer_.erase(buffer_.begin() + static_cast<std::ptrdiff_t>(i));
    buffer_.push_back(id);
    return;
  }
}

void SplitFusePolicy::Continue(StepBuilder& step, std::size_t index) {
  const RequestId id = buffer_[index];
  const Sequence& s = step.sequence(id);
  const std::int32_t remaining = s.known - s.computed;
  const std::int32_t tokens = std::min(remaining, config_.max_ragged_batch_size);
  step.Schedule(id, tokens);
  if (tokens == remaining) {
    buffer_.erase(buffer_.begin() + static_cast<std::ptrdiff_t>(index));
  }
}

}  // namespace twin
