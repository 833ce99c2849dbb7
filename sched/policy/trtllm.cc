#include "sched/policy/trtllm.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "sched/policy/field_check.h"
#include "sched/policy/length_limit.h"
#include "sched/policy/system_of_policy.h"
#include "sched/step_builder.h"

namespace twin {
namespace {

// Beyond the window, so that it stays whole while the oldest page is given back.
constexpr std::int32_t kExtraWindowPages = 1;

constexpr CaseName kTrtllmCaseNames[] = {{.name = "trtllm"}};

}  // namespace

std::span<const CaseName> TrtllmConfig::CaseNames() { return kTrtllmCaseNames; }

void TrtllmConfig::Validate() const {
  RequireDrafts(kName, speculation);
  if (order) order->ValidateWithoutPreemption(kName);
  // Otherwise a decode with all its drafts fits into no step.
  RequireField(max_num_tokens > speculation.num_speculative_tokens, "trtllm.max_num_tokens",
               max_num_tokens,
               AtLeastField("1 + num_speculative_tokens", 1 + speculation.num_speculative_tokens));
  if (context_chunking_policy != Chunking::kNone) {
    RequireField(chunk_unit_size <= max_num_tokens, "trtllm.chunk_unit_size", chunk_unit_size,
                 AtMostField("max_num_tokens", max_num_tokens));
  }
}

void TrtllmConfig::RequireSystem(const SystemOfPolicy& system) const {
  if (max_attention_window == 0 || system.window == 0) return;
  RequireField(max_attention_window == system.window, "trtllm.max_attention_window",
               max_attention_window,
               fmt::format("but the layers of {} have windows of {}; allowed: {} or 0",
                           system.model, system.window, system.window));
}

PolicyTraits TrtllmConfig::Traits() const {
  PolicyTraits traits;
  traits.name = kName;
  traits.tokens_per_step_max = max_num_tokens;
  traits.sequences_per_step_max = max_batch_size;
  traits.preempts = capacity_scheduler_policy == Capacity::kMaxUtilization;
  traits.first_come_first_served = context_chunking_policy == Chunking::kNone;
  if (order) order->SetTraits(traits);
  traits.memory_rule = "trtllm";
  traits.context_tokens_max = max_seq_len;
  traits.outputs_end_at_context = true;
  traits.drafts_max = speculation.num_speculative_tokens;
  if (max_attention_window > 0) {
    traits.window_pool_ratio = PolicyTraits::kEqualWindowPool;
    traits.window_parameter = "max_attention_window";
  }
  return traits;
}

TrtllmPolicy::TrtllmPolicy(const TrtllmConfig& config, const KvPoolConfig& kv)
    : config_(config), traits_(config.Traits()), waiting_(config.order.value_or(OrderConfig{})) {
  if (config.max_attention_window == 0) return;
  pages_ = kv.window_blocks > 0 ? kv.window_blocks : kv.blocks;
  pages_max_ = (config.max_attention_window - 1) / kv.block_size + 1 + kExtraWindowPages;
}

void TrtllmPolicy::Enqueue(const Sequence& sequence) { waiting_.PushArrival(sequence); }

void TrtllmPolicy::Remove(const Sequence& sequence) {
  const auto is_it = [&](const Active& active) { return active.id == sequence.id; };
  if (std::erase_if(active_, is_it) == 0) waiting_.Erase(sequence);
}

void TrtllmPolicy::Plan(StepBuilder& step) {
  fitting_.clear();
  blocks_of_waiting_ = 0;
  if (!waiting_.first_come_first_served()) ReturnWaiting(step);
  if (config_.capacity_scheduler_policy == TrtllmConfig::Capacity::kMaxUtilization) {
    FitNextStep(step);
  } else {
    FitToTheEnd(step);
  }
  SelectBatch(step);
  HoldPrompts(step);
  ScheduleBatch(step);
  waiting_.ChargeStep(step);
}

std::optional<DecodeLimits> TrtllmPolicy::DecodeStreakLimits() const {
  if (config_.speculation.on() || holds_ || !waiting_.OrderIsFixedWhileDecoding()) {
    return std::nullopt;
  }
  // DecodeLimits knows of no pages, which MAX_UTILIZATION counts for the next step alone.
  const bool counts_next_step =
      config_.capacity_scheduler_policy == TrtllmConfig::Capacity::kMaxUtilization;
  if (pages_ > 0 && counts_next_step) return std::nullopt;
  // A waiting request that did not fit found too few blocks, and there will be no more: a decode
  // takes only blocks that were counted before. One that fits and has no tokens must fit again, or
  // MAX_UTILIZATION pauses a request after it.
  return DecodeLimits{.free_blocks_min = blocks_of_waiting_, .after_ends = true};
}

std::optional<RejectReason> TrtllmPolicy::Refusal(const StepBuilder& step,
                                                  const Sequence& s) const {
  const bool chunks = config_.context_chunking_policy != TrtllmConfig::Chunking::kNone;
  if ((config_.max_seq_len > 0 && s.prompt_tokens >= config_.max_seq_len) ||
      (!chunks && s.known > config_.max_num_tokens)) {
    return RejectReason::kTooLongForModel;
  }
  const Room whole{step.pool().usable(), pages_};
  if (!whole.Holds(Growth(0, BlocksAtEnd(step.pool(), s)))) return RejectReason::kTooLargeForCache;
  return std::nullopt;
}

std::int32_t TrtllmPolicy::BlocksAtEnd(const KvPool& pool, const Sequence& s) const {
  const bool counts_drafts =
      config_.capacity_scheduler_policy != TrtllmConfig::Capacity::kMaxUtilization;
  const std::int32_t drafts = counts_drafts ? config_.speculation.num_speculative_tokens : 0;
  return pool.BlocksFor(LengthLimit(s, config_.max_seq_len) + drafts);
}

std::int32_t TrtllmPolicy::BlocksOfNextStep(const KvPool& pool, const Sequence& s) const {
  return std::max(0, pool.BlocksFor(s.known + DraftsOf(s)) - s.blocks.held());
}

TrtllmPolicy::Room TrtllmPolicy::Growth(std::int32_t held, std::int32_t blocks) const {
  return {blocks - held, std::min(blocks, pages_max_) - std::min(held, pages_max_)};
}

TrtllmPolicy::Room TrtllmPolicy::Free(const StepBuilder& step) const {
  Room free{step.pool().free(), pages_};
  if (pages_ == 0) return free;
  for (const Active& active : active_) {
    free.pages -= std::min(step.sequence(active.id).blocks.held(), pages_max_);
  }
  return free;
}

std::int32_t TrtllmPolicy::DraftsOf(const Sequence& s) const {
  if (s.drafts == 0) return 0;
  std::int32_t end = std::numeric_limits<std::int32_t>::max();
  if (config_.max_seq_len > 0) end = config_.max_seq_len;
  if (config_.capacity_scheduler_policy == TrtllmConfig::Capacity::kMaxUtilization) {
    end = std::min(end, s.prompt_tokens + s.max_output_tokens);
  }
  return std::clamp(end - 1 - s.known, 0, s.drafts);
}

bool TrtllmPolicy::Activate(StepBuilder& step) {
  while (!waiting_.empty()) {
    const Sequence& s = step.sequence(waiting_.PopFront());
    if (const auto reason = Refusal(step, s)) {
      step.Reject(s.id, *reason);
      continue;
    }
    waiting_.Admitted(s);
    active_.push_back({s.id, BlocksAtEnd(step.pool(), s)});
    return true;
  }
  return false;
}

void TrtllmPolicy::ReturnWaiting(const StepBuilder& step) {
  for (auto back = active_.rbegin(); back != active_.rend(); ++back) {
    const Sequence& s = step.sequence(back->id);
    if (s.state != SequenceState::kWaiting) continue;
    waiting_.NotAdmitted(s);
    waiting_.PutBack(s);
  }
  std::erase_if(active_, [&](const Active& active) {
    return step.sequence(active.id).state == SequenceState::kWaiting;
  });
}

void TrtllmPolicy::SortIfShort(const StepBuilder& step) {
  Room needed;
  for (const Active& active : active_) {
    const Sequence& s = step.sequence(active.id);
    const std::int32_t held = s.blocks.held();
    needed.Add(Growth(held, held + BlocksOfNextStep(step.pool(), s)));
  }
  if (Free(step).Holds(needed)) return;
  std::sort(active_.begin(), active_.end(), [&](const Active& a, const Active& b) {
    return waiting_.Before(step.sequence(a.id), step.sequence(b.id));
  });
}

bool TrtllmPolicy::RejectsOutgrown(StepBuilder& step, std::size_t place) {
  const Sequence& s = step.sequence(active_[place].id);
  if (s.state != SequenceState::kWaiting) return false;
  const auto reason = Refusal(step, s);
  if (!reason) return false;
  step.Reject(s.id, *reason);
  active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(place));
  return true;
}

void TrtllmPolicy::FitToTheEnd(StepBuilder& step) {
  const auto limit = static_cast<std::size_t>(config_.max_batch_size);
  Room available = Free(step);
  for (const Active& active : active_) {
    const Sequence& s = step.sequence(active.id);
    if (!s.decodes) continue;
    if (fitting_.size() == limit) return;
    available.Take(Growth(s.blocks.held(), active.blocks_at_end));
    fitting_.push_back(active.id);
  }
  const bool waits = config_.capacity_scheduler_policy == TrtllmConfig::Capacity::kStaticBatch;
  if (waits && !fitting_.empty()) return;
  for (std::size_t i = 0; fitting_.size() < limit; ++i) {
    if (i == active_.size() && !Activate(step)) return;
    const Sequence& s = step.sequence(active_[i].id);
    if (s.decodes) continue;
    available.Take(Growth(s.blocks.held(), active_[i].blocks_at_end));
    if (!available.Holds({})) return;
    fitting_.push_back(s.id);
  }
}

void TrtllmPolicy::FitNextStep(StepBuilder& step) {
  if (!waiting_.first_come_first_served()) SortIfShort(step);
  const auto limit = static_cast<std::size_t>(config_.max_batch_size);
  Room free = Free(step);
  std::optional<std::size_t> end;  // place of the latest victim: no later request is looked at
  for (std::size_t i = 0; !end || i < *end;) {
    if (i == active_.size() && !Activate(step)) return;
    if (RejectsOutgrown(step, i)) {
      if (end) --*end;
      continue;
    }
    const Sequence& s = step.sequence(active_[i].id);
    const std::int32_t held = s.blocks.held();
    const std::int32_t blocks = BlocksOfNextStep(step.pool(), s);
    const Room needed = Growth(held, held + blocks);
    if (free.Holds(needed) && fitting_.size() < limit) {
      free.Take(needed);
      if (s.state == SequenceState::kWaiting) blocks_of_waiting_ += blocks;
      fitting_.push_back(s.id);
      ++i;
      continue;
    }
    const std::size_t last = end.value_or(active_.size());
    const std::size_t victim = PauseLast(step, i, last, free);
    if (victim == last) return;
    end = victim;
  }
}

std::size_t TrtllmPolicy::PauseLast(StepBuilder& step, std::size_t first, std::size_t end,
                                    Room& free) {
  for (std::size_t i = end; i > first; --i) {
    const Sequence& s = step.sequence(active_[i - 1].id);
    if (s.state != SequenceState::kRunning) continue;
    free.Add(Growth(0, s.blocks.held()));
    step.PreemptByRecompute(s.id);
    return i - 1;
  }
  return end;
}

void TrtllmPolicy::SelectBatch(const StepBuilder& step) {
  const bool chunks = config_.context_chunking_policy != TrtllmConfig::Chunking::kNone;
  contexts_.clear();
  decodes_.clear();
  std::int32_t used = 0;
  std::int64_t tentative = 0;  // with chunking, prompts are charged when all are known
  bool too_long = false;
  for (const RequestId id : fitting_) {
    if (contexts_.size() + decodes_.size() == static_cast<std::size_t>(config_.max_batch_size)) {
      break;
    }
    const Sequence& s = step.sequence(id);
    const std::int32_t remaining = s.known - s.computed;
    if (s.decodes) {
      const std::int32_t cost = 1 + DraftsOf(s);
      if (cost > config_.max_num_tokens - used) break;
      used += cost;
      decodes_.push_back(id);
      continue;
    }
    if (chunks) {
      tentative += remaining;
      too_long |= remaining > config_.max_num_tokens;
    } else {
      if (remaining > config_.max_num_tokens - used) break;
      used += remaining;
    }
    contexts_.push_back({id, remaining, remaining});
  }
  if (!too_long && tentative <= config_.max_num_tokens - used) return;
  const std::int32_t unit = config_.chunk_unit_size > 0
                                ? config_.chunk_unit_size
                                : std::min(step.pool().block_size(), config_.max_num_tokens);
  SizeChunks(config_.max_num_tokens - used, unit);
}

void TrtllmPolicy::SizeChunks(std::int32_t room, std::int32_t unit) {
  if (config_.context_chunking_policy == TrtllmConfig::Chunking::kEqualProgress) {
    SizeEqually(room, unit);
  } else {
    SizeInOrder(room, unit);
  }
  std::erase_if(contexts_, [](const Context& context) { return context.tokens == 0; });
  std::stable_partition(contexts_.begin(), contexts_.end(),
                        [](const Context& c) { return c.tokens < c.remaining; });
}

void TrtllmPolicy::SizeInOrder(std::int32_t room, std::int32_t unit) {
  for (Context& context : contexts_) {
    context.tokens = std::min(context.remaining, room);
    if (context.tokens < context.remaining) context.tokens -= context.tokens % unit;
    room -= context.tokens;
  }
}

void TrtllmPolicy::SizeEqually(std::int32_t room, std::int32_t unit) {
  for (Context& context : contexts_) context.tokens = 0;
  for (bool progress = true; progress && room > 0;) {
    progress = false;
    for (Context& context : contexts_) {
      const std::int32_t growth = std::min(unit, context.remaining - context.tokens);
      if (growth == 0 || growth > room) continue;
      context.tokens += growth;
      room -= growth;
      progress = true;
    }
  }
}

void TrtllmPolicy::HoldPrompts(const StepBuilder& step) {
  holds_ = false;
  if (config_.batch_wait_timeout_iters == 0 || contexts_.empty() || decodes_.empty()) return;
  std::int64_t tokens = 0;
  for (const Context& context : contexts_) tokens += step.sequence(context.id).known;
  for (const RequestId id : decodes_) tokens += 1 + DraftsOf(step.sequence(id));
  const double enough = config_.batch_wait_max_tokens_ratio * config_.max_num_tokens;
  holds_ = held_steps_ < config_.batch_wait_timeout_iters && static_cast<double>(tokens) < enough;
  held_steps_ = holds_ ? held_steps_ + 1 : 0;
  if (holds_) contexts_.clear();
}

void TrtllmPolicy::ScheduleBatch(StepBuilder& step) {
  for (const Context& context : contexts_) {
    const Sequence& s = step.sequence(context.id);
    if (s.state == SequenceState::kWaiting) step.Admit(s.id);
    CHECK(step.Grow(s, s.known));
    step.Schedule(s, context.tokens);
  }
  // Blocks for these requests are free: the capacity scheduler counted them.
  if (config_.speculation.on()) {
    for (const RequestId id : decodes_) {
      const Sequence& s = step.sequence(id);
      const std::int32_t drafts = DraftsOf(s);
      CHECK(step.Grow(s, s.known + drafts));
      step.Schedule(s, 1 + drafts);
    }
    return;
  }
  const std::size_t decodes = step.ScheduleDecodes(decodes_);
  CHECK(decodes == decodes_.size());
}

}  // namespace twin
