#include "sched/policy/splitfuse.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "sched/policy/field_check.h"
#include "sched/step_builder.h"

namespace twin {
namespace {

constexpr CaseName kSplitFuseCaseNames[] = {{.name = "splitfuse"}, {.name = "mii_splitfuse"}};

// The context limit in force; without one nothing is too long.
SplitFuseConfig WithReleaseDefaults(SplitFuseConfig config) {
  if (config.max_length == 0) config.max_length = std::numeric_limits<std::int32_t>::max();
  return config;
}

}  // namespace

std::span<const CaseName> SplitFuseConfig::CaseNames() { return kSplitFuseCaseNames; }

void SplitFuseConfig::Validate() const {
  if (order) order->ValidateWithoutPreemption(kName);
}

PolicyTraits SplitFuseConfig::Traits() const {
  PolicyTraits traits;
  traits.name = kName;
  traits.memory_rule = "mii";
  traits.context_tokens_max = max_length;
  traits.tokens_per_step_max = max_ragged_batch_size;
  traits.sequences_per_step_max = max_ragged_sequence_count;
  traits.first_come_first_served = false;
  traits.defers_release = true;
  if (order) order->SetTraits(traits);
  return traits;
}

SplitFusePolicy::SplitFusePolicy(const SplitFuseConfig& config)
    : config_(WithReleaseDefaults(config)),
      traits_(config.Traits()),
      fresh_(config.order.value_or(OrderConfig{})) {
  // Usual sizes from the start: some lists reach their largest size only after many passes.
  constexpr std::size_t kUsual = 256;
  for (auto* list : {&decoding_, &started_, &arrived_, &continuing_, &flushes_, &visiting_, &split_,
                     &skipped_}) {
    list->reserve(kUsual);
  }
}

void SplitFusePolicy::Enqueue(const Sequence& sequence) { arrived_.push_back(sequence.id); }

void SplitFusePolicy::Remove(const Sequence& sequence) {
  const RequestId id = sequence.id;
  if (sequence.decodes) {
    std::erase(decoding_, id);
    std::erase(continuing_, id);
  } else if (sequence.blocks.held() > 0) {
    std::erase(started_, id);
  } else if (std::erase(arrived_, id) == 0) {
    fresh_.Erase(sequence);
  }
  if (sequence.blocks.held() > 0) flushes_.push_back(id);
}

void SplitFusePolicy::StepReturned(const StepPlan& plan) {
  starvation_.TokensEmitted(plan.totals.emitting_items);
  // It is not empty after a decode streak, whose steps were planned without the policy.
  continuing_.resize(plan.work.size());
  std::size_t count = 0;
  for (const WorkItem& item : plan.work) {
    continuing_[count] = item.request;
    count += item.emits ? 1 : 0;
  }
  continuing_.resize(count);
  for (const RequestId ended : flushes_) std::erase(continuing_, ended);
}

std::optional<DecodeLimits> SplitFusePolicy::DecodeStreakLimits() const {
  const bool decodes_alone = decoding_.empty() && started_.empty() && fresh_.empty() &&
                             arrived_.empty() && flushes_.empty() &&
                             fresh_.OrderIsFixedWhileDecoding();
  return decodes_alone ? std::optional(DecodeLimits{}) : std::nullopt;
}

void SplitFusePolicy::Plan(StepBuilder& step) {
  // Arrivals reached the queue while the pass ran, its continuing decodes after it.
  TakeArrivals(step);
  decoding_.insert(decoding_.end(), continuing_.begin(), continuing_.end());
  continuing_.clear();
  free_blocks_ = step.pool().free();
  promised_blocks_ = tokens_ = sequences_ = 0;
  DecodePass(step);
  PromptPass(step);
  if (step.plan().work.empty() && flushes_.empty()) EvictLast(step);
  // Blocks of finished requests become free after this pass's decision.
  for (const RequestId id : flushes_) step.Release(id);
  flushes_.clear();
  fresh_.ChargeStep(step);
}

void SplitFusePolicy::TakeArrivals(StepBuilder& step) {
  for (const RequestId id : arrived_) {
    const Sequence& s = step.sequence(id);
    const bool too_long = s.prompt_tokens > config_.max_length;
    if (too_long || step.pool().BlocksFor(s.known) > step.pool().usable()) {
      step.Reject(id, too_long ? RejectReason::kTooLongForModel : RejectReason::kTooLargeForCache);
    } else {
      fresh_.PushArrival(s);
    }
  }
  arrived_.clear();
}

// Leaves in decoding_ what it does not schedule, in order.
void SplitFusePolicy::DecodePass(StepBuilder& step) {
  visiting_.swap(decoding_);
  decoding_.clear();
  const std::int32_t limit =
      std::min(config_.max_ragged_sequence_count, config_.max_ragged_batch_size);
  std::int32_t examined = 0;
  for (std::size_t i = 0; i < visiting_.size();) {
    const std::size_t most =
        std::min(visiting_.size() - i, static_cast<std::size_t>(limit - examined));
    const std::size_t served = step.ScheduleDecodes({&visiting_[i], most});
    i += served;
    examined += static_cast<std::int32_t>(served);
    tokens_ += static_cast<std::int32_t>(served);
    if (i == visiting_.size()) break;
    // No block is left for it, or it is one more than may be examined.
    if (examined < limit) ++examined;
    decoding_.push_back(visiting_[i++]);
  }
  sequences_ = tokens_;
  promised_blocks_ = free_blocks_ - step.pool().free();
}

void SplitFusePolicy::PromptPass(StepBuilder& step) {
  stopped_ = free_blocks_ == 0;
  split_.clear();
  skipped_.clear();
  visiting_.swap(started_);
  started_.clear();
  for (const RequestId id : visiting_) {
    if (OfferPrompt(step, id) == Offer::kKept) started_.push_back(id);
  }
  while (!stopped_ && !fresh_.empty()) {
    const Offer outcome = OfferPrompt(step, fresh_.front());
    if (stopped_) break;
    const RequestId id = fresh_.PopFront();
    if (outcome == Offer::kKept) {
      skipped_.push_back(id);
    } else {
      fresh_.Admitted(step.sequence(id));
    }
  }
  for (auto id = skipped_.rbegin(); id != skipped_.rend(); ++id) {
    fresh_.PutBack(step.sequence(*id));
  }
  started_.insert(started_.begin(), split_.rbegin(), split_.rend());
}

// Schedules as much of the prompt as the pass has room for, or nothing.
SplitFusePolicy::Offer SplitFusePolicy::OfferPrompt(StepBuilder& step, RequestId id) {
  const Sequence& s = step.sequence(id);
  const std::int32_t remaining = s.known - s.computed;
  const std::int32_t room = config_.max_ragged_batch_size - tokens_;
  const std::int32_t blocks_left = free_blocks_ - promised_blocks_;
  const std::int32_t blocks = step.pool().BlocksFor(s.known) - s.blocks.held();
  stopped_ = stopped_ || sequences_ >= config_.max_ragged_sequence_count || room <= 0 ||
             (remaining > 1 && blocks > blocks_left);
  if (stopped_ || blocks > blocks_left) return Offer::kKept;
  const std::int32_t tokens = std::min(remaining, room);
  const std::int32_t held = s.blocks.held();
  if (held == 0) step.Admit(id);
  CHECK(step.Grow(id, s.computed + tokens));
  promised_blocks_ += s.blocks.held() - held;
  step.Schedule(id, tokens);
  tokens_ += tokens;
  ++sequences_;
  if (tokens == remaining) return Offer::kWhole;
  split_.push_back(id);
  return Offer::kSplit;
}

// The last holder of blocks starts over, as a new prompt at the back.
void SplitFusePolicy::EvictLast(StepBuilder& step) {
  if (!decoding_.empty()) {
    Evict(step, decoding_);
  } else if (!started_.empty()) {
    // DeepSpeed-MII stops a prompt when no block is free, even one that has all its blocks: alone
    // it would be evicted and started over for ever.
    const Sequence& s = step.sequence(started_.back());
    const bool complete = s.blocks.held() == step.pool().BlocksFor(s.known);
    if (complete && starvation_.DeniesAgain()) {
      ContinueLast(step);
    } else {
      Evict(step, started_);
    }
  }
}

void SplitFusePolicy::Evict(StepBuilder& step, std::vector<RequestId>& holders) {
  const RequestId id = holders.back();
  holders.pop_back();
  step.PreemptByRecompute(id);
  arrived_.push_back(id);
}

void SplitFusePolicy::ContinueLast(StepBuilder& step) {
  const RequestId id = started_.back();
  const Sequence& s = step.sequence(id);
  const std::int32_t remaining = s.known - s.computed;
  const std::int32_t tokens = std::min(remaining, config_.max_ragged_batch_size);
  step.Schedule(id, tokens);
  if (tokens == remaining) started_.pop_back();
}

}  // namespace twin
