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

// Tokens with a place in the block table: the latest token of a decode has none yet.
std::int32_t PlacedTokens(const Sequence& s) { return s.decodes ? s.known - 1 : s.known; }

// Blocks that V0 counts as written by the next append, whether or not they are new ones.
std::int32_t TouchedBlocks(const Sequence& s, std::int32_t block_size) {
  if (s.decodes) return 1;
  return PlacedTokens(s) % block_size == 0 ? 0 : 1;
}

std::int32_t SwapBlocks(const Sequence& s, std::int32_t block_size) {
  return PlacedTokens(s) / block_size + TouchedBlocks(s, block_size);
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
  RequireAtLeast("vllm_v0.max_num_seqs", max_num_seqs, 1);
  RequireAtLeast("vllm_v0.max_model_len", max_model_len, 0);
  RequireShare("vllm_v0.watermark", watermark);
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

void VllmV0Config::ResolveContext(std::int32_t model_tokens) {
  if (max_model_len == 0) max_model_len = model_tokens;
  max_num_batched_tokens = Budget(*this);
}

void VllmV0Config::ValidateContext(std::int32_t model_tokens) const {
  RequireWithinModel("vllm_v0.max_model_len", max_model_len, model_tokens);
}

PolicyTraits VllmV0Config::Traits() const {
  PolicyTraits traits;
  traits.name = kName;
  traits.memory_rule = "vllm_v0";
  traits.step_engine = "v0";
  traits.context_tokens_max = max_model_len;
  traits.tokens_per_step_max = Budget(*this);
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
  if (std::erase(running_, sequence.id) > 0 || swapped_.Erase(sequence.id)) return;
  waiting_.Erase(sequence);
}

void VllmV0Policy::StepReturned(const StepPlan& plan) {
  starvation_.TokensEmitted(plan.totals.emitting_items);
}

std::optional<DecodeLimits> VllmV0Policy::DecodeRunLimits() const {
  if (config_.enable_chunked_prefill || config_.policy == QueueOrder::kPriority) {
    return std::nullopt;
  }
  if (!swapped_.empty() || !waiting_.StandsStill()) return std::nullopt;
  // Whoever waits did not fit into the blocks or the batch, and there will not be more room.
  return DecodeLimits{.free_blocks_min = 1};
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
  waiting_.Planned(step);
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
      if (blocks <= step.pool().free() && Affordable(s.known)) break;
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
    CHECK(step.Grow(s, s.known));
    if (s.decodes) {
      decodes_.push_back(id);
    } else {
      prefills_.push_back({id, tokens});
    }
    tokens_ += tokens;
    if (config_.enable_chunked_prefill) {
      ++sequences_;
    } else {
      step.Schedule(s, tokens);
    }
  }
  running_.assign(visiting_.begin() + static_cast<std::ptrdiff_t>(next_), visiting_.end());
}

// Without chunks, decodes enter the step as they are granted. Each wants a free block, whether it
// needs one or not.
bool VllmV0Policy::GrantPlainDecodes(StepBuilder& step) {
  if (config_.enable_chunked_prefill) return false;
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
  const std::int32_t touched = TouchedBlocks(step.sequence(id), step.pool().block_size());
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
  const bool swap =
      config_.preemption_mode == VllmV0Config::PreemptionMode::kSwap &&
      SwapBlocks(step.sequence(id), step.pool().block_size()) <= step.pool().host_free();
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
    const std::int32_t blocks = SwapBlocks(s, step.pool().block_size());
    if (blocks > step.pool().usable()) {
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
    if (tokens == 0 || !Affordable(tokens)) break;
    swapped_.PopFront();
    CHECK(step.SwapIn(id));
    CHECK(step.Grow(id, s.known));
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
      step.Reject(id, too_long ? RejectReason::kTooLongForModel : RejectReason::kTooLargeForCache);
      waiting_.PopFront();
      continue;
    }
    if (blocks > step.pool().free()) break;
    if (tokens == 0 || !Affordable(tokens)) break;
    waiting_.PopFront();
    waiting_.Admitted(s);
    step.Admit(id);
    CHECK(step.Grow(id, s.known));
    admitted_.push_back({id, tokens});
    Charge(tokens);
  }
}

std::int32_t VllmV0Policy::PrefillTokens(const Sequence& s) const {
  const std::int32_t tokens = s.known - s.computed;
  if (!config_.enable_chunked_prefill) return tokens;
  return std::min(tokens, config_.max_num_batched_tokens - tokens_);
}

bool VllmV0Policy::Affordable(std::int32_t tokens) const {
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
  for (const RequestId id : ids) step.Schedule(id, 1);
}

void VllmV0Policy::RunDecodes(const std::vector<RequestId>& ids) {
  running_.insert(running_.end(), ids.begin(), ids.end());
}

}  // namespace twin
