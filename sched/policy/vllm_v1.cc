#include "sched/policy/vllm_v1.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "sched/policy/field_check.h"
#include "sched/step_builder.h"

namespace twin {
namespace {

VllmV1Rules RulesOf(const VllmV1Config& config) {
  using enum VllmV1Release;
  const auto since = [&](VllmV1Release first) { return config.release >= first; };
  const bool publishes_drafts = since(k0_33_0) && config.speculation.on();
  return {.whole_sequence_gate = since(k0_19_0) && config.scheduler_reserve_full_isl,
          .lone_request_lifts_threshold = since(k0_31_0),
          .self_preemption_goes_on = since(k0_33_0),
          .any_earlier_victim_shifts = since(k0_28_0),
          .publishes_returned_tokens =
              config.enable_prefix_caching && (config.async_scheduling || publishes_drafts),
          .waits_for_returning_tokens = since(k0_28_0),
          .staggers_pipeline = since(k0_23_0) && config.async_scheduling,
          .lookahead_at_admission = since(k0_23_0),
          .pads_lone_tokens = since(k0_28_0),
          .pads_cached_prompts = since(k0_31_0),
          .counts_draft_slots = since(k0_28_0)};
}

// The limits in force. Parameters that a release does not have are set to where they change
// nothing. Before 0.33.0 the interval between prefills applies to data-parallel engines alone.
VllmV1Config WithReleaseDefaults(VllmV1Config config) {
  if (config.release < VllmV1Release::k0_33_0) config.prefill_schedule_interval = 1;
  if (config.release < VllmV1Release::k0_31_0) {
    config.long_prefill_token_threshold_adaptive = false;
    config.max_num_active_seqs = 0;
    config.prefix_cache_retention_interval = -1;
  }
  if (config.release < VllmV1Release::k0_24_0) config.watermark = 0.0;
  if (config.release < VllmV1Release::k0_19_0) config.max_num_scheduled_tokens = 0;
  if (config.max_model_len == 0) {
    config.max_model_len = std::numeric_limits<std::int32_t>::max();
  }
  if (config.max_num_active_seqs == 0) config.max_num_active_seqs = config.max_num_seqs;
  if (config.max_num_scheduled_tokens == 0) {
    config.max_num_scheduled_tokens = config.max_num_batched_tokens;
  }
  return config;
}

OrderConfig OrderOf(const VllmV1Config& config) {
  if (config.order) return *config.order;
  return {.kind = config.policy == QueueOrder::kFcfs ? OrderConfig::Kind::kFcfs
                                                     : OrderConfig::Kind::kPriority};
}

constexpr CaseName kVllmV1CaseNames[] = {
    {.name = "vllm_v1", .parameters = R"({"release": "v0_15_1"})"},
    {.name = "vllm_v1_033", .parameters = R"({"release": "v0_33_0"})"}};

}  // namespace

std::span<const CaseName> VllmV1Config::CaseNames() { return kVllmV1CaseNames; }

void VllmV1Config::Validate() const {
  RequireDrafts(kName, speculation);
  // Keys of blocks depend on the tokens after a block where the proposer reads hidden states.
  RequireField(!speculation.on() || !speculation.reads_hidden_states() || !enable_prefix_caching,
               "vllm_v1.enable_prefix_caching", enable_prefix_caching,
               "must be false with the speculation methods eagle and mtp");
  // An admitted request that is padded to verify drafts would never fit.
  const std::int32_t verified = speculation.on() ? 1 + speculation.num_speculative_tokens : 0;
  RequireField(max_num_scheduled_tokens == 0 || max_num_scheduled_tokens >= verified,
               "vllm_v1.max_num_scheduled_tokens", max_num_scheduled_tokens,
               AtLeastField("1 + num_speculative_tokens", verified));
  RequireField(max_num_batched_tokens >= verified + speculation.draft_slots(),
               "vllm_v1.max_num_batched_tokens", max_num_batched_tokens,
               AtLeastField("1 + num_speculative_tokens", verified + speculation.draft_slots()));
  if (!order) return;
  RequireField(policy == QueueOrder::kFcfs, "vllm_v1.policy", "priority",
               "must be fcfs where vllm_v1.order is set");
  order->Validate(kName);
}

void VllmV1Config::ValidateStartUp() const {
  const char* field = "vllm_v1.max_num_batched_tokens";
  RequireField(max_num_batched_tokens >= max_num_seqs, field, max_num_batched_tokens,
               AtLeastField("max_num_seqs", max_num_seqs));
  RequireField(enable_chunked_prefill || max_num_batched_tokens >= max_model_len, field,
               max_num_batched_tokens,
               AtLeastField("max_model_len", max_model_len) + " unless enable_chunked_prefill");
  RequireField(max_model_len == 0 || long_prefill_token_threshold <= max_model_len,
               "vllm_v1.long_prefill_token_threshold", long_prefill_token_threshold,
               AtMostField("max_model_len", max_model_len));
  RequireField(max_num_active_seqs <= max_num_seqs, "vllm_v1.max_num_active_seqs",
               max_num_active_seqs, AtMostField("max_num_seqs", max_num_seqs));
  RequireField(max_num_scheduled_tokens <= max_num_batched_tokens,
               "vllm_v1.max_num_scheduled_tokens", max_num_scheduled_tokens,
               AtMostField("max_num_batched_tokens", max_num_batched_tokens));
}

PolicyTraits VllmV1Config::Traits() const {
  const VllmV1Config config = WithReleaseDefaults(*this);
  const bool fronts_keyless = release >= VllmV1Release::k0_24_0;
  PolicyTraits traits;
  traits.name = kName;
  traits.memory_rule = "vllm_v1";
  traits.context_tokens_max = max_model_len;
  traits.outputs_end_at_context = true;
  traits.sized_for_tokens = max_num_batched_tokens;
  traits.release_order = fronts_keyless ? ReleaseOrder::kKeylessFront : ReleaseOrder::kBack;
  traits.tokens_per_step_max = std::min(max_num_batched_tokens, config.max_num_scheduled_tokens);
  traits.sequences_per_step_max = config.max_num_active_seqs;
  traits.steps_in_flight_max = async_scheduling ? 2 : pipeline_parallel_size;
  if (RulesOf(*this).staggers_pipeline) {
    traits.steps_in_flight_max =
        std::min(pipeline_parallel_size, std::numeric_limits<std::int32_t>::max() - 1) + 1;
  }
  traits.overlaps_own_steps = traits.steps_in_flight_max > 1;
  if (traits.steps_in_flight_max > 1) {
    const auto earlier = async_scheduling ? ResultQueue::kAsync : ResultQueue::kPipeline;
    const bool queues = release >= VllmV1Release::k0_23_0;
    traits.result_queue = queues ? ResultQueue::kBatchQueue : earlier;
  }
  traits.frees_in_flight = true;
  OrderOf(*this).SetTraits(traits);
  traits.receives_kv = !speculation.on();
  traits.caches_prefixes = enable_prefix_caching;
  traits.publishes_returned_tokens = RulesOf(*this).publishes_returned_tokens;
  traits.keeps_kv_groups = !speculation.on();
  traits.retention_interval = config.prefix_cache_retention_interval;
  traits.drafts_max = speculation.num_speculative_tokens;
  traits.assumes_drafts = speculation.on() && async_scheduling;
  return traits;
}

VllmV1Policy::VllmV1Policy(const VllmV1Config& config, std::int32_t blocks)
    : config_(WithReleaseDefaults(config)),
      rules_(RulesOf(config)),
      traits_(config.Traits()),
      draft_slots_(rules_.counts_draft_slots ? config_.speculation.draft_slots() : 0),
      // The share is of the pool with the null block that vLLM keeps for itself.
      watermark_blocks_(static_cast<std::int32_t>(
          std::floor(config_.watermark * (static_cast<double>(blocks) + 1)))),
      waiting_(OrderOf(config)),
      latest_prefill_step_(-config_.prefill_schedule_interval),
      turn_interval_(rules_.staggers_pipeline ? config_.pipeline_parallel_size : 1) {}

void VllmV1Policy::Enqueue(const Sequence& sequence) {
  waiting_.PushArrival(sequence);
  if (takes_turns()) turns_.due.OpenInAnyOrder(sequence.id) = 0;
}

void VllmV1Policy::Remove(const Sequence& sequence) {
  if (takes_turns()) turns_.due.Close(sequence.id);
  const auto found = std::find(running_.begin(), running_.end(), sequence.id);
  if (found != running_.end()) {
    running_.erase(found);
  } else if (std::erase(awaited_, sequence.id) == 0) {
    waiting_.Erase(sequence);
  }
}

std::optional<DecodeLimits> VllmV1Policy::DecodeStreakLimits() const {
  const bool admits = !(waiting_.empty() && awaited_.empty()) &&
                      static_cast<std::int32_t>(running_.size()) < config_.max_num_active_seqs;
  // The cadence of prefills counts steps.
  if (admits || config_.prefill_schedule_interval > 1 || config_.speculation.on() ||
      takes_turns() || !waiting_.OrderIsFixedWhileDecoding()) {
    return std::nullopt;
  }
  // A pipeline without asynchronous scheduling cannot build upon tokens in flight.
  if (traits_.overlaps_own_steps && !config_.async_scheduling) return std::nullopt;
  // A step has the requests in the order of running_, and the admitted ones behind them.
  return DecodeLimits{
      .computed_max = config_.max_model_len - 1, .after_prompts = true, .after_ends = true};
}

void VllmV1Policy::StepReturned(const StepPlan& /*plan*/) {
  if (takes_turns()) turns_.in_flight.PopFront();
}

bool VllmV1Policy::HasPlace() const {
  return turns_.in_flight.empty() ||
         turns_.calls + 1 - turns_.in_flight.front() < traits_.steps_in_flight_max;
}

void VllmV1Policy::Plan(StepBuilder& step) {
  if (!takes_turns()) return PlanCall(step);
  turn_was_empty_ = false;
  if (!HasPlace()) return;
  ++turns_.calls;
  turns_.passed_over = false;
  PlanCall(step);
  for (const WorkItem& item : step.plan().work) {
    if (item.emits) turns_.due[item.request] = turns_.calls + turn_interval_;
  }
  if (!step.plan().empty()) {
    turns_.in_flight.PushBack(turns_.calls);
  } else {
    turn_was_empty_ = turns_.passed_over && HasPlace();
  }
}

void VllmV1Policy::PlanCall(StepBuilder& step) {
  Call call{.budget = traits_.tokens_per_step_max,
            .input = config_.max_num_batched_tokens,
            .threshold = Threshold(),
            .held = HoldsPrefill(step)};
  if (waiting_.order().preempts()) PreemptForQueueHead(step);
  RunningPass(step, call);
  call.pads = rules_.pads_lone_tokens && config_.speculation.on() && !call.prefill;
  call.decodes = !step.plan().work.empty();
  if (!call.preempted) WaitingPass(step, call);
  waiting_.ChargeStep(step);
  if (!step.plan().work.empty()) {
    ++steps_with_work_;
    if (call.prefill) latest_prefill_step_ = steps_with_work_;
  }
}

std::int32_t VllmV1Policy::Threshold() const {
  const std::size_t requests = running_.size() + waiting_.size();
  std::int32_t threshold = config_.long_prefill_token_threshold;
  if (rules_.lone_request_lifts_threshold && requests <= 1) threshold = 0;
  if (threshold > 0 && config_.long_prefill_token_threshold_adaptive) {
    threshold =
        std::max(threshold, config_.max_num_batched_tokens / static_cast<std::int32_t>(requests));
  }
  return threshold;
}

bool VllmV1Policy::HoldsPrefill(const StepBuilder& step) const {
  if (config_.prefill_schedule_interval <= 1 || saturated_) return false;
  if (steps_with_work_ + 1 - latest_prefill_step_ >= config_.prefill_schedule_interval) {
    return false;
  }
  return std::any_of(running_.begin(), running_.end(),
                     [&](RequestId id) { return step.sequence(id).decodes; });
}

std::int32_t VllmV1Policy::TokensWanted(const Sequence& s, const Call& call) const {
  // Without asynchronous scheduling a token still in flight cannot be built upon.
  const std::int32_t target = s.known + (config_.async_scheduling ? s.pending : 0);
  std::int32_t tokens = target + s.drafts - s.computed;
  if (call.threshold > 0) tokens = std::min(tokens, call.threshold);
  tokens = std::min({tokens, call.budget, call.input - draft_slots_});
  return std::min(tokens, config_.max_model_len - 1 - s.computed);
}

std::int32_t VllmV1Policy::TokensNeedingBlocks(std::int32_t tokens) const {
  const std::int32_t lookahead = config_.speculation.lookahead_tokens();
  return lookahead == 0 ? tokens : std::min(tokens + lookahead, config_.max_model_len);
}

std::int32_t VllmV1Policy::Padding(const Call& call, const Sequence& s, std::int32_t base) const {
  const bool beside_decodes = call.decodes || (base > 0 && rules_.pads_cached_prompts);
  if (!call.pads || base + 1 != s.known || !beside_decodes) return 0;
  const std::int32_t drafts = config_.speculation.num_speculative_tokens;
  return base + 1 + drafts + 1 <= config_.max_model_len ? drafts : 0;
}

void VllmV1Policy::Issue(StepBuilder& step, Call& call, const Sequence& s, std::int32_t tokens) {
  step.Schedule(s, tokens);
  call.budget -= tokens;
  call.input -= tokens + draft_slots_;
  if (config_.enable_prefix_caching) step.PublishPrefix(s, std::min(s.computed, s.known));
}

void VllmV1Policy::RunningPass(StepBuilder& step, Call& call) {
  // A pipeline without asynchronous scheduling cannot build upon tokens in flight.
  const bool decodes_at_once = (config_.async_scheduling || !traits_.overlaps_own_steps) &&
                               !config_.speculation.on() && !takes_turns();
  for (std::size_t i = 0; i < running_.size() && !call.exhausted(draft_slots_);) {
    if (decodes_at_once) {
      const std::size_t affordable =
          std::min(running_.size() - i, static_cast<std::size_t>(call.budget));
      const std::size_t decodes = step.ScheduleDecodes({&running_[i], affordable},
                                                       {.computed_max = config_.max_model_len - 1});
      call.budget -= static_cast<std::int32_t>(decodes);
      i += decodes;
      if (decodes > 0) continue;
    }
    const RequestId id = running_[i];
    if (takes_turns() && turns_.calls < turns_.due[id]) {
      turns_.passed_over = true;
      ++i;
      continue;
    }
    const Sequence& s = step.sequence(id);
    const bool mid_prefill = !s.decodes;
    std::int32_t tokens =
        s.certain_to_end() || (call.held && mid_prefill) ? 0 : TokensWanted(s, call);
    if (step.groups() != nullptr && tokens > 0) [[unlikely]]
      tokens = CutForStates(step, s, s.computed, tokens, step.groups()->junction(id));
    if (tokens <= 0) {
      ++i;
      continue;
    }
    const std::int32_t covered = TokensNeedingBlocks(s.computed + tokens);
    if (!step.Grow(s, covered) && MakeRoom(step, call, id, covered, i) == Room::kSelfPreempted) {
      if (rules_.self_preemption_goes_on && !waiting_.first_come_first_served()) continue;
      break;
    }
    Issue(step, call, s, tokens);
    call.prefill |= mid_prefill;
    ++i;
  }
}

// Preempts while the head of the queue comes before a running request and lacks a place or memory.
void VllmV1Policy::PreemptForQueueHead(StepBuilder& step) {
  const KvPool& pool = step.pool();
  while (!waiting_.empty() && !running_.empty()) {
    const Sequence& head = step.sequence(waiting_.front());
    const std::int64_t whole = step.BlocksAtMost(std::min(head.known, config_.max_model_len));
    const bool has_place = static_cast<std::int32_t>(running_.size()) < config_.max_num_active_seqs;
    if (whole > pool.usable() || (has_place && whole + watermark_blocks_ <= pool.free())) return;
    const std::size_t last = waiting_.Last(step, running_);
    if (!waiting_.FrontIsBefore(step.sequence(running_[last]))) return;
    Preempt(step, last);
  }
}

void VllmV1Policy::Preempt(StepBuilder& step, std::size_t index) {
  const RequestId victim = running_[index];
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
  step.PreemptByRecompute(victim);
  waiting_.PushPreempted(step.sequence(victim));
}

// Preempts until `id`, at running_[index], covers `tokens` tokens or is itself the victim.
VllmV1Policy::Room VllmV1Policy::MakeRoom(StepBuilder& step, Call& call, RequestId id,
                                          std::int32_t tokens, std::size_t& index) {
  do {
    const std::size_t victim_index = waiting_.Last(step, running_);
    const RequestId victim = running_[victim_index];
    const bool scheduled = step.sequence(victim).last_step == step.plan().id;
    if (scheduled) {
      for (const WorkItem& item : step.plan().work) {
        if (item.request != victim) continue;
        call.budget += item.tokens;
        call.input += item.tokens + draft_slots_;
      }
      step.Unschedule(victim);
    }
    if (victim_index < index && (scheduled || rules_.any_earlier_victim_shifts)) --index;
    Preempt(step, victim_index);
    call.preempted = true;
    if (victim == id) return Room::kSelfPreempted;
  } while (!step.Grow(id, tokens));
  return Room::kMade;
}

void VllmV1Policy::WaitingPass(StepBuilder& step, Call& call) {
  set_aside_.clear();
  if (!awaited_.empty()) AdmitArrived(step, call);
  while (!waiting_.empty() && !call.exhausted(draft_slots_)) {
    if (static_cast<std::int32_t>(running_.size()) == config_.max_num_active_seqs) break;
    const RequestId id = waiting_.front();
    const Admission outcome = TryAdmit(step, call, id);
    if (outcome == Admission::kStop) break;
    waiting_.PopFront();
    if (outcome == Admission::kAdmitted) {
      running_.push_back(id);
      waiting_.Admitted(step.sequence(id));
    }
    if (outcome == Admission::kRejected && takes_turns()) turns_.due.Close(id);
    if (outcome == Admission::kSetAside) set_aside_.push_back(id);
    if (outcome == Admission::kAwaited) awaited_.push_back(id);
  }
  if (!call.held) saturated_ = !waiting_.empty();
  for (auto id = set_aside_.rbegin(); id != set_aside_.rend(); ++id) {
    waiting_.PutBack(step.sequence(*id));
  }
}

VllmV1Policy::Admission VllmV1Policy::TryAdmit(StepBuilder& step, Call& call, RequestId id) {
  const Sequence& s = step.sequence(id);
  const KvPool& pool = step.pool();
  if (rules_.waits_for_returning_tokens && s.in_flight > 0) return Admission::kSetAside;
  const std::int32_t whole = std::min(s.known, config_.max_model_len);
  const bool too_long = s.prompt_tokens >= config_.max_model_len ||
                        (!config_.enable_chunked_prefill && s.known > traits_.tokens_per_step_max);
  if (too_long || step.BlocksAtMost(whole) > pool.usable()) {
    step.Reject(id, too_long ? RejectReason::kTooLongForModel : RejectReason::kTooLargeForCache);
    return Admission::kRejected;
  }

  const CacheHit hit = config_.enable_prefix_caching ? step.LookupPrefix(id) : CacheHit{};
  const std::int32_t base = hit.tokens;
  const std::int32_t whole_blocks = step.BlocksForWhole(whole, hit);
  const bool elsewhere = s.remote == RemoteKv::kElsewhere;
  if (elsewhere && base < s.remote_tokens) return TryAwait(step, s, whole_blocks, hit);
  std::int32_t tokens = s.known - base;
  const bool prefill = tokens > 1;
  if (call.held && prefill) return Admission::kStop;
  if (call.threshold > 0) tokens = std::min(tokens, call.threshold);
  const std::int32_t budget = std::min(call.budget, call.input - draft_slots_);
  const std::int32_t padding = Padding(call, s, base);
  tokens += padding;
  const bool whole_or_none = !config_.enable_chunked_prefill || padding > 0;
  if (whole_or_none && tokens > budget) return Admission::kStop;
  tokens = std::min(tokens, budget);
  if (step.groups() != nullptr) [[unlikely]] {
    tokens = CutForStates(step, s, base, tokens, step.groups()->found_junction());
    if (tokens == 0 || hit.is_being_computed) return Admission::kStop;
  }
  const bool looks_ahead = rules_.lookahead_at_admission || base > 0;
  const std::int32_t covered = looks_ahead ? TokensNeedingBlocks(base + tokens) : base + tokens;

  const std::int32_t room = pool.free() - (running_.empty() ? 0 : watermark_blocks_);
  if (rules_.whole_sequence_gate && whole_blocks > room) return Admission::kStop;
  if (step.BlocksToAdmit(covered, hit) > room) return Admission::kStop;

  if (elsewhere) step.ForgoTransfer(id);
  step.Admit(id);
  if (config_.enable_prefix_caching) step.AttachPrefix(id, hit.blocks);
  CHECK(step.Grow(id, covered));
  if (padding > 0) step.PadWithDrafts(id, padding);
  Issue(step, call, s, tokens);
  call.prefill |= prefill;
  return Admission::kAdmitted;
}

}  // namespace twin
