#include "sched/policy/vllm_v0.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "sched/policy/field_check.h"
#include "sched/step_builder.h"

namespace twin {
namespace {

bool Before(const Sequence& a, const Sequence& b) {
  return a.priority != b.priority ? a.priority < b.priority : a.id < b.id;
}

constexpr std::int32_t kDefaultBudget = 2048;

// The token budget in force.
std::int32_t Budget(const VllmV0Config& config) {
  if (config.max_num_batched_tokens > 0) return config.max_num_batched_tokens;
  return config.enable_chunked_prefill ? kDefaultBudget
                                       : std::max(config.max_model_len, kDefaultBudget);
}

// The limits in force; without a context limit nothing is too long.
VllmV0Config Effective(VllmV0Config config) {
  config.max_num_batched_tokens = Budget(config);
  if (config.max_model_len == 0) {
    config.max_model_len = std::numeric_limits<std::int32_t>::max();
  }
  return config;
}

constexpr RenamedParameter kVllmV0Parameters[] = {{"watermark_blocks", ""}};
constexpr CaseName kVllmV0CaseNames[] = {{.name = "vllm_v0", .renamed = kVllmV0Parameters}};

}  // namespace

std::span<const CaseName> VllmV0Config::CaseNames() { return kVllmV0CaseNames; }

void VllmV0Config::Validate() const {
  RequireAtLeast("vllm_v0.max_num_batched_tokens", max_num_batched_tokens, 0);
  RequireDrafts(kName, speculation);
  const std::int32_t off = speculative_disable_by_batch_size;
  RequireField(off == 0 || off >= 2, "vllm_v0.speculative_disable_by_batch_size", off,
               "must be 0 or at least 2");
  if (!order) return;
  RequireField(policy == QueueOrder::kFcfs, "vllm_v0.policy", "priority",
               "must be fcfs where vllm_v0.order is set");
  order->ValidateWithoutPreemption(kName);
}

void VllmV0Config::ValidateStartUp() const {
  const char* field = "vllm_v0.max_num_batched_tokens";
  const std::int32_t budget = Budget(*this);
  RequireField(budget >= max_num_seqs, field, budget, AtLeastField("max_num_seqs", max_num_seqs));
  RequireField(enable_chunked_prefill || budget >= max_model_len, field, budget,
               AtLeastField("max_model_len", max_model_len) + " unless enable_chunked_prefill");
}

void VllmV0Config::ResolveBudget() { max_num_batched_tokens = Budget(*this); }

PolicyTraits VllmV0Config::Traits() const {
  PolicyTraits traits;
  traits.name = kName;
  traits.memory_rule = "vllm_v0";
  traits.step_engine = "v0";
  traits.context_tokens_max = max_model_len;
  traits.tokens_per_step_max = Budget(*this);
  if (speculation.on()) {
    // The budget counts one token of each request that verifies drafts.
    const std::int64_t most =
        std::int64_t{Budget(*this)} +
        std::int64_t{max_num_seqs} * std::int64_t{speculation.num_speculative_tokens};
    traits.tokens_per_step_max = static_cast<std::int32_t>(
        std::min<std::int64_t>(most, std::numeric_limits<std::int32_t>::max()));
    traits.sized_for_tokens = Budget(*this);
    traits.drafts_max = speculation.num_speculative_tokens;
    traits.drafts_off_from_running = speculative_disable_by_batch_size;
  }
  traits.sequences_per_step_max = max_num_seqs;
  traits.first_come_first_served = policy == QueueOrder::kFcfs;
  if (order) order->SetTraits(traits);
  traits.swaps_to_host = preemption_mode == PreemptionMode::kSwap;
  return traits;
}

VllmV0Policy::VllmV0Policy(const VllmV0Config& config, std::int32_t blocks)
    : config_(Effective(config)),
      traits_(config.Traits()),
      watermark_blocks_(
          static_cast<std::int32_t>(std::floor(config.watermark * static_cast<double>(blocks)))),
      prompt_limit_(config_.enable_chunked_prefill
                        ? config_.max_model_len
                        : std::min(config_.max_model_len, config_.max_num_batched_tokens)),
      waiting_(config.order.value_or(OrderConfig{})) {}

void VllmV0Policy::Enqueue(const Sequence& sequence) { waiting_.PushArrival(sequence); }

void VllmV0Policy::Remove(const Sequence& sequence) {
  ForgetSlots(sequence.id);
  if (std::erase(running_, sequence.id) > 0 || swapped_.Erase(sequence.id)) return;
  waiting_.Erase(sequence);
}

void VllmV0Policy::StepReturned(const StepPlan& plan) {
  starvation_.TokensEmitted(plan.totals.emitting_items);
}

std::optional<DecodeLimits> VllmV0Policy::DecodeStreakLimits() const {
  if (config_.enable_chunked_prefill || config_.policy == QueueOrder::kPriority ||
      config_.speculation.on()) {
    return std::nullopt;
  }
  if (!swapped_.empty() || !waiting_.OrderIsFixedWhileDecoding()) return std::nullopt;
  // Waiting requests did not fit into the blocks or the batch, and there will be no more room.
  return DecodeLimits{.free_blocks_min = 1, .after_ends = true};
}

void VllmV0Policy::Plan(StepBuilder& step) {
  tokens_ = sequences_ = 0;
  decodes_.clear();
  resumed_decodes_.clear();
  for (Grants* grants : {&prefills_, &resumed_prefills_, &admitted_}) grants->clear();
  preempted_.clear();
  swapped_out_.clear();
  if (config_.enable_chunked_prefill) {
    PlanChunked(step);
  } else {
    PlanDefault(step);
  }
  // Victims were collected latest first: the earliest ends up at the head.
  for (const RequestId id : preempted_) waiting_.PushPreempted(step.sequence(id));
  waiting_.ChargeStep(step);
  for (const RequestId id : swapped_out_) swapped_.PushBack(id);
}

void VllmV0Policy::PlanDefault(StepBuilder& step) {
  sequences_ = static_cast<std::int32_t>(running_.size());
  if (swapped_.empty()) WaitingPass(step);
  if (!admitted_.empty()) {
    Issue(step, admitted_);
    Run(admitted_);
    return;
  }
  if (config_.policy == QueueOrder::kPriority) ForcePreemptions(step);
  RunningPass(step);
  if (preempted_.empty() && swapped_out_.empty()) SwappedPass(step);
  if (config_.speculation.on()) IssueDecodes(step, decodes_);
  IssueDecodes(step, resumed_decodes_);
  RunDecodes(decodes_);
  RunDecodes(resumed_decodes_);
}

void VllmV0Policy::PlanChunked(StepBuilder& step) {
  RunningPass(step);
  if (preempted_.empty() && swapped_out_.empty()) SwappedPass(step);
  WaitingPass(step);
  for (const Grants* grants : {&admitted_, &prefills_, &resumed_prefills_}) Issue(step, *grants);
  IssueDecodes(step, decodes_);
  IssueDecodes(step, resumed_decodes_);
  // Decodes stay ahead of prefills, so that the next call serves them first.
  RunDecodes(resumed_decodes_);
  Run(resumed_prefills_);
  RunDecodes(decodes_);
  Run(prefills_);
  Run(admitted_);
}

// Takes memory from the least important running requests for the sake of the waiting head, which is
// admitted in a later call.
void VllmV0Policy::ForcePreemptions(StepBuilder& step) {
  by_priority_.swap(running_);
  const auto before = [&](RequestId a, RequestId b) {
    return Before(step.sequence(a), step.sequence(b));
  };
  std::sort(by_priority_.begin(), by_priority_.end(), before);
  if (!waiting_.empty()) {
    const RequestId head = waiting_.front();
    const Sequence& s = step.sequence(head);
    const std::int32_t blocks = step.pool().BlocksFor(s.known) + watermark_blocks_;
    while (!by_priority_.empty() && before(head, by_priority_.back())) {
      if (blocks <= step.pool().free() && FitsBudget(s.known)) break;
      const RequestId victim = by_priority_.back();
      by_priority_.pop_back();
      --sequences_;
      step.PreemptByRecompute(victim);
      waiting_.PushPreempted(step.sequence(victim));
    }
  }
  waiting_.SortByPriority();
  running_.swap(by_priority_);
  by_priority_.clear();
}

void VllmV0Policy::RunningPass(StepBuilder& step) {
  visiting_.swap(running_);
  running_.clear();
  for (next_ = 0; next_ < visiting_.size();) {
    if (GrantPlainDecodes(step)) continue;
    const RequestId id = visiting_[next_];
    const Sequence& s = step.sequence(id);
    const std::int32_t left = config_.max_num_batched_tokens - tokens_;
    const std::int32_t tokens =
        config_.enable_chunked_prefill ? std::min(s.known - s.computed, left) : 1;
    if (tokens <= 0) break;
    ++next_;
    if (!MakeRoom(step, id)) continue;
    TakeSlots(step, s);
    if (s.decodes) {
      decodes_.push_back(id);
    } else {
      prefills_.push_back({id, tokens});
    }
    tokens_ += tokens;
    if (config_.enable_chunked_prefill) {
      ++sequences_;
    } else if (!config_.speculation.on()) {
      step.Schedule(s, tokens);
    }
  }
  running_.assign(visiting_.begin() + static_cast<std::ptrdiff_t>(next_), visiting_.end());
}

// Without chunks, decodes enter the step as they are granted. Each wants a free block, whether it
// needs one or not.
bool VllmV0Policy::GrantPlainDecodes(StepBuilder& step) {
  if (config_.enable_chunked_prefill || config_.speculation.on()) return false;
  const std::size_t count =
      step.ScheduleDecodes({&visiting_[next_], visiting_.size() - next_}, {.free_blocks_min = 1});
  const auto granted = visiting_.begin() + static_cast<std::ptrdiff_t>(next_);
  decodes_.insert(decodes_.end(), granted, granted + static_cast<std::ptrdiff_t>(count));
  next_ += count;
  tokens_ += static_cast<std::int32_t>(count);
  return count > 0;
}

// False if `id` itself had to go.
bool VllmV0Policy::MakeRoom(StepBuilder& step, RequestId id) {
  const std::int32_t touched = TouchedBlocks(step.sequence(id), step.pool());
  while (touched > step.pool().free()) {
    if (visiting_.size() == next_) {
      // A lone prefill has all the blocks that it needs, and yet vLLM V0 wants one more to be free:
      // it takes its memory away, admits it again, and so on for ever.
      if (!step.sequence(id).decodes && starvation_.DeniesAgain()) return true;
      Preempt(step, id);
      return false;
    }
    const RequestId victim = visiting_.back();
    visiting_.pop_back();
    Preempt(step, victim);
  }
  return true;
}

void VllmV0Policy::Preempt(StepBuilder& step, RequestId id) {
  const bool swap = config_.preemption_mode == VllmV0Config::PreemptionMode::kSwap &&
                    step.pool().BlocksFor(step.sequence(id).known) <= step.pool().host_free();
  if (swap && step.SwapOut(id)) {
    swapped_out_.push_back(id);
  } else {
    step.PreemptByRecompute(id);
    preempted_.push_back(id);
  }
}

void VllmV0Policy::SwappedPass(StepBuilder& step) {
  while (!swapped_.empty()) {
    const RequestId id = swapped_.front();
    const Sequence& s = step.sequence(id);
    const std::int32_t blocks = step.pool().BlocksFor(CoveredTokens(s));
    if (blocks > step.pool().usable()) {
      ForgetSlots(id);
      step.Reject(id, RejectReason::kTooLargeForCache);
      swapped_.PopFront();
      continue;
    }
    if (blocks + watermark_blocks_ > step.pool().free()) {
      // With everything else gone the watermark has nobody to protect.
      const bool alone = running_.empty() && decodes_.empty() && prefills_.empty() &&
                         resumed_decodes_.empty() && resumed_prefills_.empty();
      if (!alone || blocks > step.pool().free()) break;
    }
    const std::int32_t tokens = s.decodes ? 1 : PrefillTokens(s);
    if (tokens == 0 || !FitsBudget(tokens)) break;
    swapped_.PopFront();
    CHECK(step.SwapIn(id));
    TakeSlots(step, s);
    if (s.decodes) {
      resumed_decodes_.push_back(id);
    } else {
      resumed_prefills_.push_back({id, tokens});
    }
    Charge(tokens);
  }
}

void VllmV0Policy::WaitingPass(StepBuilder& step) {
  while (!waiting_.empty()) {
    const RequestId id = waiting_.front();
    const Sequence& s = step.sequence(id);
    const std::int32_t tokens = PrefillTokens(s);
    const std::int32_t blocks = step.pool().BlocksFor(s.known) + watermark_blocks_;
    const bool too_long = tokens > prompt_limit_;
    if (too_long || blocks > step.pool().usable()) {
      ForgetSlots(id);
      step.Reject(id, too_long ? RejectReason::kTooLongForModel : RejectReason::kTooLargeForCache);
      waiting_.PopFront();
      continue;
    }
    if (blocks > step.pool().free()) break;
    if (tokens == 0 || !FitsBudget(tokens)) break;
    waiting_.PopFront();
    waiting_.Admitted(s);
    step.Admit(id);
    TakeSlots(step, s);
    admitted_.push_back({id, tokens});
    Charge(tokens);
  }
}

// Blocks that V0 counts as written by the next append, whether or not they are new ones: all blocks
// after the full ones that its block table has tokens for. Without speculation a decode adds the
// one token that is not in the table.
std::int32_t VllmV0Policy::TouchedBlocks(const Sequence& s, const KvPool& pool) const {
  std::int32_t placed = s.known;
  if (s.decodes) placed = config_.speculation.on() ? placed_[s.id] : s.known - 1;
  return pool.BlocksFor(s.known + Lookahead()) - placed / pool.block_size();
}

void VllmV0Policy::TakeSlots(StepBuilder& step, const Sequence& s) {
  CHECK(step.Grow(s, CoveredTokens(s)));
  if (!config_.speculation.on()) return;
  std::int32_t* placed = placed_.Find(s.id);
  if (placed == nullptr) placed = &placed_.OpenInAnyOrder(s.id);
  *placed = s.known;
}

void VllmV0Policy::ForgetSlots(RequestId id) {
  if (placed_.contains(id)) placed_.Close(id);
}

bool VllmV0Policy::VerifiesDrafts() const {
  const auto limit = static_cast<std::size_t>(config_.speculative_disable_by_batch_size);
  const std::size_t running = running_.size() + decodes_.size() + prefills_.size() +
                              resumed_decodes_.size() + resumed_prefills_.size() + admitted_.size();
  return config_.speculation.on() && (limit == 0 || running < limit);
}

std::int32_t VllmV0Policy::PrefillTokens(const Sequence& s) const {
  const std::int32_t tokens = s.known - s.computed;
  if (!config_.enable_chunked_prefill) return tokens;
  return std::min(tokens, config_.max_num_batched_tokens - tokens_);
}

bool VllmV0Policy::FitsBudget(std::int32_t tokens) const {
  return tokens_ + tokens <= config_.max_num_batched_tokens && sequences_ < config_.max_num_seqs;
}

void VllmV0Policy::Charge(std::int32_t tokens) {
  tokens_ += tokens;
  ++sequences_;
}

void VllmV0Policy::Issue(StepBuilder& step, const Grants& grants) const {
  for (const Grant& grant : grants) step.Schedule(grant.id, grant.tokens);
}

void VllmV0Policy::Run(const Grants& grants) {
  for (const Grant& grant : grants) running_.push_back(grant.id);
}

void VllmV0Policy::IssueDecodes(StepBuilder& step, const std::vector<RequestId>& ids) const {
  const bool drafts = VerifiesDrafts();
  for (const RequestId id : ids) {
    const Sequence& s = step.sequence(id);
    // The proposer passes over requests whose drafts could reach the end of the context.
    const bool has_room = s.known + Lookahead() < config_.max_model_len;
    step.Schedule(s, drafts && has_room ? 1 + s.drafts : 1);
  }
}

void VllmV0Policy::RunDecodes(const std::vector<RequestId>& ids) {
  running_.insert(running_.end(), ids.begin(), ids.end());
}

}  // namespace twin
