#include "sched/policy/sglang.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "sched/cache/radix_cache.h"
#include "sched/policy/field_check.h"
#include "sched/policy/system_of_policy.h"
#include "sched/step_builder.h"

namespace twin {
namespace {

constexpr RenamedParameter kSglangParameters[] = {
    {"priority", "enable_priority_scheduling"},
    {"low_priority_values_first", "schedule_low_priority_values_first"},
    {"preemption", "priority_preemption"},
    {"preemption_threshold", "priority_scheduling_preemption_threshold"}};
// The pages of the window pool, unless they are given.
std::int32_t WindowPages(const SglangConfig& config, const KvPoolConfig& kv) {
  if (kv.window_blocks > 0) return kv.window_blocks;
  const double tokens = config.swa_full_tokens_ratio * kv.blocks * kv.block_size;
  return static_cast<std::int32_t>(tokens / kv.block_size);
}

std::unique_ptr<PrefixCache> MakeCache(const SglangConfig& config, const KvPoolConfig& kv) {
  if (!config.has_window_pool()) return std::make_unique<RadixCache>(kv, config.radix_cache);
  return std::make_unique<WindowedRadixCache>(
      kv, config.radix_cache,
      WindowedCacheConfig{.pages = WindowPages(config, kv),
                          .window = config.window,
                          .frees_at_checkpoints = config.free_out_of_window_slots});
}

constexpr CaseName kSglangCaseNames[] = {{.name = "sglang",
                                          .parameters = R"({"chunked_prefill_size": -1})",
                                          .renamed = kSglangParameters}};

}  // namespace

std::span<const CaseName> SglangConfig::CaseNames() { return kSglangCaseNames; }

void SglangConfig::Validate() const {
  RequireField(schedule_conservativeness >= 0, "sglang.schedule_conservativeness",
               schedule_conservativeness, "must be at least 0");
  if (order) ValidateOrder();
}

void SglangConfig::ResolveWindow(std::int32_t model_window) {
  if (hybrid_swa_memory && window == 0) window = model_window;
}

// With a tree of prefixes a request counts as three slots, or as five where steps overlap (SGLang
// 0.5.23).
void SglangConfig::LimitBySystem(const SystemOfPolicy& system) {
  if (!system.state_slots) return;
  const std::int32_t slots_of_request = !radix_cache ? 1 : overlap ? 5 : 3;
  const std::int64_t most = std::max<std::int64_t>(1, *system.state_slots / slots_of_request);
  if (most < max_running_requests) max_running_requests = static_cast<std::int32_t>(most);
}

void SglangConfig::ValidateOrder() const {
  order->ValidateWithoutPreemption(kName);
  RequireField(schedule_policy == Order::kFcfs, "sglang.schedule_policy",
               schedule_policy == Order::kLpm ? "lpm" : "lof",
               "must be fcfs with sglang.order, which takes its place");
  RequireField(!enable_priority_scheduling, "sglang.enable_priority_scheduling", true,
               "must be false with sglang.order; allowed: order { kind: priority }");
  RequireField(retraction_policy == Retraction::kLength, "sglang.retraction_policy", "priority",
               "must be length with sglang.order, which decides who is retracted");
}

PolicyTraits SglangConfig::Traits() const {
  PolicyTraits traits;
  traits.name = kName;
  traits.memory_rule = "sglang";
  traits.context_tokens_max = context_length;
  traits.window_pool_ratio = hybrid_swa_memory ? swa_full_tokens_ratio : 0.0;
  if (has_window_pool()) traits.window_parameter = "window";
  traits.outputs_end_at_context = true;
  traits.sized_for_tokens = std::max(chunked_prefill_size, 0);
  if (traits.sized_for_tokens == 0) traits.sized_for_tokens = max_prefill_tokens;
  traits.sequences_per_step_max = max_running_requests;
  traits.first_come_first_served = schedule_policy == Order::kFcfs && !enable_priority_scheduling;
  if (order) order->SetTraits(traits);
  traits.caches_prefixes = radix_cache;
  traits.keeps_prefix_tree = true;
  if (radix_cache && schedule_policy == Order::kLpm && in_batch_check_threshold >= 0) {
    traits.compared_tokens = in_batch_deprioritize_threshold;
  }
  traits.defers_release = true;
  traits.forgets_stale_tokens = true;
  if (overlap) {
    traits.steps_in_flight_max = 2;
    traits.overlaps_own_steps = true;
    traits.result_queue = ResultQueue::kOverlap;
  }
  return traits;
}

SglangPolicy::SglangPolicy(const SglangConfig& config, const KvPoolConfig& kv)
    : config_(config),
      traits_(config.Traits()),
      page_(kv.block_size),
      cache_tokens_(std::int64_t{kv.blocks} * kv.block_size),
      cache_(MakeCache(config, kv)),
      windows_(config.has_window_pool() ? static_cast<WindowedRadixCache*>(cache_.get()) : nullptr),
      ratio_(config.schedule_conservativeness, config.init_new_token_ratio,
             config.min_new_token_ratio_factor, config.new_token_ratio_decay_steps),
      waiting_(config, kv.tokens_per_key()) {
  RequireField(config.chunked_prefill_size <= 0 || config.chunked_prefill_size >= kv.block_size,
               "sglang.chunked_prefill_size", config.chunked_prefill_size,
               AtLeastField("system.memory.block_size", kv.block_size));
}

void SglangPolicy::Enqueue(const Sequence& s) {
  const std::int64_t limit =
      std::min({std::int64_t{s.max_output_tokens}, LongestRequest() - s.prompt_tokens,
                cache_tokens_ - RoundUp(s.prompt_tokens) - page_ - 1});
  SglangRequest& request = requests_.Open(s.id);
  request = {};
  request.limit = static_cast<std::int32_t>(std::max<std::int64_t>(limit, 0));
  arrived_.push_back(s.id);
}

void SglangPolicy::Remove(const Sequence& s) {
  const RequestId id = s.id;
  if (chunked_ == id) chunked_.reset();
  if (std::erase(running_, id) > 0) {
    running_shrank_ = true;
  } else if (std::erase(last_batch_, id) > 0) {
    last_batch_shrank_ = true;
  } else if (std::erase(taken_out_, id) == 0 && s.blocks.held() == 0) {
    if (std::erase(arrived_, id) == 0) waiting_.Erase(s, requests_[id]);
  }
  if (s.blocks.held() == 0) {
    requests_.Close(id);
  } else {
    ended_.push_back({id, s.in_flight});
    if (windows_ != nullptr) windows_->KeepEnded(s, requests_[id].hold);
  }
}

void SglangPolicy::UpdateTree(const StepPlan& plan, KvEditor& blocks) {
  if (ended_.empty() && plan.totals.prefill_items == 0) return;
  for (const WorkItem& item : plan.work) {
    const Sequence* const s = blocks.Find(item.request);
    if (s == nullptr || s->blocks.held() == 0) continue;
    SglangRequest& request = requests_[item.request];
    if (s->state == SequenceState::kFinished) {
      const auto ended = std::find_if(ended_.begin(), ended_.end(),
                                      [&](const Ended& e) { return e.id == item.request; });
      if (ended == ended_.end()) continue;
      ended_.erase(ended);
      cache_->Finish(blocks, *s, std::min(s->known, s->computed), request.hold);
      releases_.push_back(item.request);
    } else if (item.emits && item.phase == Phase::kPrefill && s->state == SequenceState::kRunning) {
      cache_->Checkpoint(blocks, *s, item.start + item.tokens, request.hold);
    }
  }
  for (Ended& cancelled : ended_) cancelled.in_flight = blocks.Find(cancelled.id)->in_flight;
}

void SglangPolicy::CollectReleases(std::vector<RequestId>& finished) {
  // Cancelled requests leave nothing in the tree but their checkpoints.
  std::erase_if(ended_, [&](const Ended& ended) {
    if (ended.in_flight > 0) return false;
    releases_.push_back(ended.id);
    if (windows_ != nullptr) windows_->ReleaseEnded(ended.id);
    return true;
  });
  for (const RequestId id : releases_) {
    cache_->Unlock(requests_[id].hold);
    requests_.Close(id);
    finished.push_back(id);
  }
  releases_.clear();
}

void SglangPolicy::Idle() {
  ratio_.Reset();
  gauge_ = {"ratio", ratio_.value()};
}

void SglangPolicy::Plan(StepBuilder& step) {
  if (Receives()) TakeArrivals(step);
  TakeBack(step);
  CheckpointChunk(step);
  MergeLastBatch();
  latest_has_prompts_ = PlanPrefill(step);
  if (!latest_has_prompts_ && !running_.empty()) PlanDecode(step);
  if (windows_ != nullptr) RefuseWhatCannotRun(step);
  waiting_.ChargeStep(step);
  gauge_ = {"ratio", ratio_.value()};
}

// An engine without requests passes any interval at once.
bool SglangPolicy::Receives() {
  if (config_.scheduler_recv_interval <= 1) return true;
  constexpr std::int64_t kPromptsWeight = 1000;
  CountStep(latest_has_prompts_ ? kPromptsWeight : 1);
  const bool is_idle = running_.empty() && last_batch_.empty() && !chunked_;
  if (is_idle) unreceived_ = 0;
  return unreceived_ == 0;
}

void SglangPolicy::CountStep(std::int64_t weight) {
  unreceived_ += weight;
  if (unreceived_ >= config_.scheduler_recv_interval) unreceived_ = 0;
}

void SglangPolicy::TakeArrivals(StepBuilder& step) {
  for (const RequestId id : arrived_) {
    const Sequence& s = step.sequence(id);
    const std::int64_t asked = std::int64_t{s.prompt_tokens} + s.max_output_tokens;
    const bool too_long = config_.context_length > 0 && asked > config_.context_length;
    if (too_long || s.prompt_tokens + page_ >= cache_tokens_) {
      step.Reject(id, too_long ? RejectReason::kTooLongForModel : RejectReason::kTooLargeForCache);
      requests_.Close(id);
    } else {
      Requeue(step, id);
    }
  }
  arrived_.clear();
}

// Takes requests back that should have ended with a step that has returned, but go on: the world
// lets their outputs exceed their limits.
void SglangPolicy::TakeBack(const StepBuilder& step) {
  const auto rows = static_cast<std::size_t>(config_.max_running_requests);
  std::erase_if(taken_out_, [&](RequestId id) {
    const bool room = running_.size() + last_batch_.size() < rows;
    const bool goes_on = step.sequence(id).in_flight == 0 && room;
    if (goes_on) running_.push_back(id);
    return goes_on;
  });
}

void SglangPolicy::CheckpointChunk(StepBuilder& step) {
  if (!chunked_ || parked_) return;
  const Sequence& s = step.sequence(*chunked_);
  KvEditor blocks = step.blocks();
  cache_->Checkpoint(blocks, s, s.computed, requests_[*chunked_].hold);
}

void SglangPolicy::MergeLastBatch() {
  if (chunked_ && std::erase(last_batch_, *chunked_) > 0) last_batch_shrank_ = true;
  if (last_batch_shrank_) full_ = false;
  if (running_.empty() && !last_batch_.empty()) full_ = false;
  running_.insert(running_.end(), last_batch_.begin(), last_batch_.end());
  last_batch_.clear();
  if (running_shrank_) full_ = false;
  last_batch_shrank_ = running_shrank_ = false;
}

// Preempts an admitted request and frees its memory; `left` requests go on running. (Not
// StepBuilder::Release, which frees the blocks of a finished request.)
void SglangPolicy::Release(StepBuilder& step, RequestId id, std::size_t left) {
  SglangRequest& request = requests_[id];
  cache_->Drop(step.sequence(id), request.hold);
  request.hit_tokens = 0;
  request.prefills = request.decodes = 0;
  step.PreemptByRecompute(id);
  static_cast<void>(MakeFree(step, static_cast<std::int64_t>(left) * config_.retract_decode_steps));
}

void SglangPolicy::Abort(StepBuilder& step, RequestId id) {
  Release(step, id, 0);
  step.Reject(id, RejectReason::kTooLargeForCache);
  requests_.Close(id);
}

void SglangPolicy::Requeue(StepBuilder& step, RequestId id) {
  const Sequence& s = step.sequence(id);
  if (s.known + page_ >= cache_tokens_) {
    step.Reject(id, RejectReason::kTooLargeForCache);
    requests_.Close(id);
    return;
  }
  SglangRequest& request = requests_[id];
  request.queued_at = entries_++;
  waiting_.Push(s, request);
}

// The original's limit: the context or the whole cache, less two tokens.
std::int64_t SglangPolicy::LongestRequest() const {
  const std::int64_t context = config_.context_length > 0
                                   ? config_.context_length
                                   : std::numeric_limits<std::int64_t>::max();
  return std::min(context, cache_tokens_) - 2;
}

std::int64_t SglangPolicy::Available(const StepBuilder& step) const {
  return (std::int64_t{step.pool().free()} + cache_->evictable()) * page_;
}

bool SglangPolicy::MakeFree(StepBuilder& step, std::int64_t tokens) {
  KvEditor blocks = step.blocks();
  return cache_->MakeFree(blocks, (tokens + page_ - 1) / page_);
}

std::int64_t SglangPolicy::Clipped(std::int64_t tokens) const {
  return std::min(tokens, std::int64_t{config_.clip_max_new_tokens});
}

double SglangPolicy::ExpectedFutureTokens(const Sequence& s) const {
  const double share = s.ignore_eos ? 1.0 : ratio_.value();
  const std::int64_t left = std::max(requests_[s.id].limit - Output(s), 0);
  return static_cast<double>(Clipped(left)) * share;
}

}  // namespace twin
