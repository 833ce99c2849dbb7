#include "sched/policy/tgi.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "sched/step_builder.h"

namespace twin {
namespace {

std::int64_t RoundUp(std::int64_t tokens, std::int64_t multiple) {
  return (tokens + multiple - 1) / multiple * multiple;
}

// The last token is returned without its keys and values ever being computed.
std::int32_t TokensHeld(const Sequence& s) { return s.prompt_tokens + s.max_output_tokens - 1; }

}  // namespace

PolicyTraits TgiTraits(std::string_view policy, const TgiRouterOptions& options) {
  PolicyTraits traits;
  traits.name = policy;
  traits.sequences_per_step_max = options.chunks_prefills ? 0 : options.max_batch_size;
  traits.preempts = false;
  traits.caches_prefixes = options.caches_prefixes;
  traits.publishes_at_end = options.caches_prefixes;
  traits.memory_rule = "tgi";
  traits.sized_for_tokens = options.max_batch_prefill_tokens;
  traits.context_tokens_max = options.max_total_tokens;
  traits.outputs_end_at_context = true;
  traits.step_engine = "tgis";
  if (options.order) options.order->SetTraits(traits);
  return traits;
}

TgiRouter::TgiRouter(const TgiRouterOptions& options, const PolicyTraits& traits)
    : options_(options), traits_(traits), waiting_(options.order.value_or(OrderConfig{})) {}

void TgiRouter::Enqueue(const Sequence& sequence) {
  const bool too_long = IsTooLong(sequence);
  const auto limit = static_cast<std::size_t>(options_.max_concurrent_requests);
  const std::size_t present =
      batch_.size() + waiting_.size() - static_cast<std::size_t>(too_long_waiting_);
  if (limit > 0 && present >= limit && !too_long) {
    overload_.push_back(sequence.id);
    return;
  }
  too_long_waiting_ += too_long ? 1 : 0;
  waiting_.PushArrival(sequence);
}

void TgiRouter::Remove(const Sequence& sequence) {
  if (std::erase(overload_, sequence.id) > 0) return;
  if (std::erase(batch_, sequence.id) == 0) {
    too_long_waiting_ -= IsTooLong(sequence) ? 1 : 0;
    waiting_.Erase(sequence);
    return;
  }
  std::erase_if(open_prompts_, [&](const OpenPrompt& open) { return open.id == sequence.id; });
}

void TgiRouter::Plan(StepBuilder& step) {
  for (const RequestId id : overload_) step.Reject(id, RejectReason::kOverloaded);
  overload_.clear();
  SizeOpenPrompts(step);
  joining_.clear();
  const bool interrupts = !batch_.empty();
  if ((batch_.empty() || !decode_is_due_) && !waiting_.empty()) {
    CollectJoining(step, LimitsNow(step.pool().block_size()));
  }
  const bool joins = !joining_.empty();
  if (!joins || options_.chunks_prefills) ContinueBatch(step);
  ScheduleJoining(step);
  waiting_.ChargeStep(step);
  waiting_tokens_ = joins ? 1 : std::min(waiting_tokens_ + 1, options_.max_waiting_tokens);
  decode_is_due_ = joins && interrupts;
  last_step_requests_ = static_cast<std::int32_t>(step.plan().work.size());
}

std::optional<DecodeLimits> TgiRouter::DecodeStreakLimits() const {
  // Without chunking every decode is counted, until the count makes no difference.
  const bool counts = !options_.chunks_prefills && waiting_tokens_ < options_.max_waiting_tokens;
  if (!waiting_.empty() || counts || !waiting_.OrderIsFixedWhileDecoding()) return std::nullopt;
  return DecodeLimits{.after_ends = true};
}

// The sizes that the model server sets after each step, from the last prompt to the first.
void TgiRouter::SizeOpenPrompts(const StepBuilder& step) {
  std::erase_if(open_prompts_, [&](const OpenPrompt& open) {
    const Sequence& s = step.sequence(open.id);
    return s.computed >= s.prompt_tokens;
  });
  std::int32_t budget =
      std::max(0, options_.max_batch_prefill_tokens - std::max(0, last_step_requests_ - 1));
  for (auto open = open_prompts_.rbegin(); open != open_prompts_.rend(); ++open) {
    const Sequence& s = step.sequence(open->id);
    open->tokens = std::max(1, std::min(s.prompt_tokens - s.computed, budget));
    budget = std::max(0, budget - open->tokens);
  }
}

TgiRouter::JoinLimits TgiRouter::LimitsNow(std::int32_t block_size) const {
  JoinLimits limits;
  const auto size = static_cast<std::int32_t>(batch_.size());
  std::int64_t budget = options_.max_batch_prefill_tokens;
  if (options_.chunks_prefills) {
    budget -= size - static_cast<std::int64_t>(open_prompts_.size());
    for (const OpenPrompt& open : open_prompts_) budget -= open.tokens;
  } else {
    if (options_.max_batch_size > 0) limits.most = options_.max_batch_size - size;
    if (size > 0 && waiting_tokens_ < options_.max_waiting_tokens) {
      limits.least = static_cast<std::int64_t>(
          std::floor(static_cast<float>(size) * static_cast<float>(options_.waiting_served_ratio)));
    }
  }
  limits.prompt_tokens = RoundUp(std::max<std::int64_t>(budget, 0), block_size);
  return limits;
}

void TgiRouter::CollectJoining(StepBuilder& step, const JoinLimits& limits) {
  if (static_cast<std::int64_t>(waiting_.size()) < limits.least) return;
  Collected collected;
  std::int64_t room = limits.prompt_tokens;
  while (room > 0 && !waiting_.empty() &&
         static_cast<std::int64_t>(joining_.size()) < limits.most) {
    const Sequence& s = step.sequence(waiting_.front());
    if (const auto reason = Refusal(step, s)) {
      too_long_waiting_ -= IsTooLong(s) ? 1 : 0;
      step.Reject(waiting_.PopFront(), *reason);
      continue;
    }
    Joining joining{.id = s.id};
    if (!Fits(step, s, joining, collected)) break;
    const std::int64_t charged = options_.allocates_blocks
                                     ? joining.tokens
                                     : RoundUp(joining.tokens, step.pool().block_size());
    if (charged > room) {
      if (!options_.chunks_prefills) break;
      joining.tokens = static_cast<std::int32_t>(room);
    }
    room -= charged;
    joining_.push_back(joining);
    waiting_.PopFront();
    waiting_.Admitted(s);
    // With chunking no request goes back into the queue, and the next one finds the memory taken.
    if (options_.chunks_prefills) Admit(step, joining);
  }
  if (options_.chunks_prefills) return;
  if (static_cast<std::int64_t>(joining_.size()) < limits.least) {
    for (auto back = joining_.rbegin(); back != joining_.rend(); ++back) {
      waiting_.NotAdmitted(step.sequence(back->id));
      waiting_.PutBack(step.sequence(back->id));
    }
    joining_.clear();
  }
  for (const Joining& joining : joining_) Admit(step, joining);
}

bool TgiRouter::Fits(const StepBuilder& step, const Sequence& s, Joining& joining,
                     Collected& collected) const {
  const KvPool& pool = step.pool();
  const std::int32_t held = pool.usable() - pool.free();
  joining.tokens = s.prompt_tokens;
  if (!options_.allocates_blocks) {
    const std::int64_t prompt =
        collected.prompt_tokens + RoundUp(s.prompt_tokens, pool.block_size());
    const std::int64_t output =
        collected.output_tokens + RoundUp(s.max_output_tokens, pool.block_size());
    const std::int64_t room = std::int64_t{BlocksMax(pool) - held} * pool.block_size();
    if (prompt + output > room) return false;
    collected.prompt_tokens = prompt;
    collected.output_tokens = output;
    return true;
  }
  std::int64_t taken = pool.BlocksFor(TokensHeld(s));  // of the free blocks
  if (options_.caches_prefixes) {
    const CacheHit hit = step.LookupPrefix(s.id);
    joining.cached_blocks = hit.blocks;
    joining.tokens -= hit.blocks * pool.block_size();
    taken += hit.free_blocks - hit.blocks;
  }
  if (collected.blocks + taken > BlocksMax(pool) - held) return false;
  if (!options_.chunks_prefills) collected.blocks += taken;
  return true;
}

bool TgiRouter::IsTooLong(const Sequence& s) const {
  const std::int64_t asked = std::int64_t{s.prompt_tokens} + s.max_output_tokens;
  return options_.max_total_tokens > 0 && asked > options_.max_total_tokens;
}

std::optional<RejectReason> TgiRouter::Refusal(const StepBuilder& step, const Sequence& s) const {
  const KvPool& pool = step.pool();
  if (IsTooLong(s)) return RejectReason::kTooLongForModel;
  const std::int64_t size = pool.block_size();
  const std::int64_t prompt =
      options_.allocates_blocks ? s.prompt_tokens : RoundUp(s.prompt_tokens, size);
  if (!options_.chunks_prefills && prompt > RoundUp(options_.max_batch_prefill_tokens, size)) {
    return RejectReason::kTooLongForModel;
  }
  const std::int64_t blocks = options_.allocates_blocks
                                  ? pool.BlocksFor(TokensHeld(s))
                                  : (prompt + RoundUp(s.max_output_tokens, size)) / size;
  if (blocks > BlocksMax(pool)) return RejectReason::kTooLargeForCache;
  return std::nullopt;
}

std::int32_t TgiRouter::BlocksMax(const KvPool& pool) const {
  if (options_.max_batch_total_tokens == 0) return pool.usable();
  // Version 3 keeps a block for its health checks.
  const std::int32_t blocks =
      options_.max_batch_total_tokens / pool.block_size() - (options_.allocates_blocks ? 1 : 0);
  return std::min(blocks, pool.usable());
}

void TgiRouter::Admit(StepBuilder& step, const Joining& joining) {
  step.Admit(joining.id);
  if (options_.caches_prefixes) step.AttachPrefix(joining.id, joining.cached_blocks);
  CHECK(step.Grow(joining.id, TokensHeld(step.sequence(joining.id))));
}

void TgiRouter::ScheduleJoining(StepBuilder& step) {
  for (const Joining& joining : joining_) {
    const Sequence& s = step.sequence(joining.id);
    step.Schedule(s, joining.tokens);
    batch_.push_back(joining.id);
    if (s.computed < s.prompt_tokens) open_prompts_.push_back({.id = joining.id});
  }
}

void TgiRouter::ContinueBatch(StepBuilder& step) {
  std::span<const RequestId> ids = batch_;
  auto open = open_prompts_.cbegin();
  while (!ids.empty()) {
    ids = ids.subspan(step.ScheduleDecodes(ids));
    if (ids.empty()) break;
    const Sequence& s = step.sequence(ids.front());
    const bool is_open = open != open_prompts_.cend() && open->id == s.id;
    const std::int32_t tokens = is_open ? (open++)->tokens : 1;
    step.Schedule(s, tokens);
    ids = ids.subspan(1);
  }
}

}  // namespace twin
