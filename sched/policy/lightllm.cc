#include "sched/policy/lightllm.h"

#include <algorithm>

#include "core/check.h"
#include "sched/policy/field_check.h"
#include "sched/policy/length_limit.h"
#include "sched/step_builder.h"

namespace twin {
namespace {

constexpr CaseName kLightllmCaseNames[] = {{.name = "lightllm"}};

// The original's default for the prompt tokens of an iteration.
std::int64_t DefaultPromptTokens(std::int64_t cache_tokens, std::int64_t context_tokens) {
  return std::max(cache_tokens / 6, context_tokens);
}

bool HasMoreLeft(const CacheGrowth& a, const CacheGrowth& b) { return a.left > b.left; }

// Growth of a request that is not running: all the tokens that it can become.
CacheGrowth WholeGrowth(const Sequence& s, std::int32_t context) {
  const std::int32_t first = s.prompt_tokens + 1;
  return {first, std::max(LengthLimit(s, context) - first, 0)};
}

}  // namespace

std::span<const CaseName> LightllmConfig::CaseNames() { return kLightllmCaseNames; }

void LightllmConfig::Validate() const {
  if (order) order->ValidateWithoutPreemption(kName);
}

PolicyTraits LightllmConfig::Traits() const {
  PolicyTraits traits;
  traits.name = kName;
  traits.context_tokens_max = max_model_len;
  traits.outputs_end_at_context = true;
  traits.step_engine = "tgis";
  traits.sequences_per_step_max = running_max_req_size;
  traits.preempts = false;
  if (order) order->SetTraits(traits);
  return traits;
}

std::int64_t FuturePeakTokens(std::span<const CacheGrowth> requests, std::int64_t waste) {
  std::int64_t peak = 0;
  std::int64_t held = 0;
  std::int64_t running = 0;
  for (const CacheGrowth& request : requests) {
    ++running;
    held += request.held;
    // When this request ends, the requests before it are still running.
    peak = std::max(peak, held + running * (request.left + waste));
  }
  return peak;
}

LightllmPolicy::LightllmPolicy(const LightllmConfig& config, const KvPoolConfig& kv)
    : config_(config),
      traits_(config.Traits()),
      block_size_(kv.block_size),
      cache_tokens_(static_cast<std::int64_t>(kv.blocks) * kv.block_size),
      prompt_tokens_max_(config.batch_max_tokens > 0
                             ? config.batch_max_tokens
                             : DefaultPromptTokens(cache_tokens_, config.max_model_len)),
      waiting_(config.order.value_or(OrderConfig{})) {}

void LightllmPolicy::Enqueue(const Sequence& sequence) { waiting_.PushArrival(sequence); }

void LightllmPolicy::Remove(const Sequence& sequence) {
  if (std::erase(running_, sequence.id) == 0) waiting_.Erase(sequence);
}

std::optional<DecodeLimits> LightllmPolicy::DecodeStreakLimits() const {
  // Waiting requests are looked at again after some iterations.
  if (!waiting_.empty() || !waiting_.OrderIsFixedWhileDecoding()) return std::nullopt;
  return DecodeLimits{.after_ends = true};
}

void LightllmPolicy::Plan(StepBuilder& step) {
  if (!waiting_.empty() && AdmissionIsDue(step) && Prefill(step)) {
    latest_prefill_ = step.plan().id;
  } else {
    Decode(step);
  }
  waiting_.ChargeStep(step);
}

// Each step since the latest prompts was an iteration that decoded.
bool LightllmPolicy::AdmissionIsDue(const StepBuilder& step) const {
  if (running_.empty()) return true;
  const std::uint64_t decoded = Index(step.plan().id) - Index(latest_prefill_) - 1;
  return decoded >= static_cast<std::uint64_t>(config_.max_waiting_iters);
}

bool LightllmPolicy::Prefill(StepBuilder& step) {
  ReadGrowths(step);
  const auto running_max = static_cast<std::size_t>(config_.running_max_req_size);
  std::int64_t prompt_tokens = 0;
  while (!waiting_.empty()) {
    if (RejectsHead(step)) continue;
    const Sequence& s = step.sequence(waiting_.front());
    if (running_.size() == running_max) break;
    if (prompt_tokens + s.prompt_tokens > prompt_tokens_max_ || !FitsFuture(s)) break;
    prompt_tokens += s.prompt_tokens;
    waiting_.PopFront();
    waiting_.Admitted(s);
    step.Admit(s.id);
    CHECK(step.Grow(s, s.prompt_tokens));
    step.Schedule(s, s.prompt_tokens);
    running_.push_back(s.id);
  }
  return prompt_tokens > 0;
}

void LightllmPolicy::ReadGrowths(const StepBuilder& step) {
  growths_.clear();
  for (const RequestId id : running_) {
    const Sequence& s = step.sequence(id);
    growths_.push_back({s.known, std::max(LengthLimit(s, config_.max_model_len) - s.known - 1, 0)});
  }
  std::sort(growths_.begin(), growths_.end(), HasMoreLeft);
}

bool LightllmPolicy::FitsFuture(const Sequence& s) {
  const CacheGrowth growth = WholeGrowth(s, config_.max_model_len);
  const auto place = growths_.insert(
      std::upper_bound(growths_.begin(), growths_.end(), growth, HasMoreLeft), growth);
  if (FuturePeakTokens(growths_, block_size_ - 1) < cache_tokens_) return true;
  growths_.erase(place);
  return false;
}

// True if the head can never be served; it is rejected.
bool LightllmPolicy::RejectsHead(StepBuilder& step) {
  const Sequence& s = step.sequence(waiting_.front());
  const bool too_long = s.prompt_tokens > prompt_tokens_max_ ||
                        (config_.max_model_len > 0 && s.prompt_tokens > config_.max_model_len);
  const CacheGrowth alone[] = {WholeGrowth(s, config_.max_model_len)};
  if (!too_long && FuturePeakTokens(alone, block_size_ - 1) < cache_tokens_) return false;
  step.Reject(s.id, too_long ? RejectReason::kTooLongForModel : RejectReason::kTooLargeForCache);
  waiting_.PopFront();
  return true;
}

void LightllmPolicy::Decode(StepBuilder& step) {
  for (std::size_t i = 0; i < running_.size(); ++i) {
    i += step.ScheduleDecodes({&running_[i], running_.size() - i});
    if (i == running_.size()) break;
    const Sequence& s = step.sequence(running_[i]);
    CHECK(step.Grow(s, s.known));
    step.Schedule(s, 1);
  }
}

}  // namespace twin
