#include "sched/policy/sarathi.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "sched/policy/field_check.h"
#include "sched/step_builder.h"

namespace twin {
namespace {

// Sizes from high to low in equal steps, cut to integers, each rounded to a multiple of
// min(32, low), half to even.
std::vector<std::int32_t> StageSizes(const SarathiConfig& config) {
  std::vector<std::int32_t> sizes;
  const std::int32_t stages = config.chunk_schedule_stages;
  const std::int32_t unit = std::min(32, config.low_chunk_size);
  for (std::int32_t i = stages; i-- > 0;) {
    const double share = stages > 1 ? static_cast<double>(i) / (stages - 1) : 0.0;
    const double size =
        config.low_chunk_size + share * (config.high_chunk_size - config.low_chunk_size);
    const double rounded = std::nearbyint(std::trunc(size) / unit) * unit;
    constexpr double kMost = std::numeric_limits<std::int32_t>::max();
    sizes.push_back(static_cast<std::int32_t>(std::min(rounded, kMost)));
  }
  return sizes;
}

constexpr RenamedParameter kSarathiParameters[] = {{"watermark_blocks", ""}};
constexpr RenamedParameter kSarathiVllmParameters[] = {{"watermark_blocks", ""},
                                                       {"max_batched_tokens", "chunk_size"}};
constexpr CaseName kSarathiCaseNames[] = {{.name = "sarathi", .renamed = kSarathiParameters},
                                          {.name = "sarathi_vllm",
                                           .parameters = R"({"scheduler": "vllm"})",
                                           .renamed = kSarathiVllmParameters},
                                          {.name = "sarathi_simple_chunking",
                                           .parameters = R"({"scheduler": "simple_chunking"})",
                                           .renamed = kSarathiParameters}};

// The context limit in force; without one nothing is too long.
SarathiConfig WithReleaseDefaults(SarathiConfig config) {
  if (config.max_model_len == 0) {
    config.max_model_len = std::numeric_limits<std::int32_t>::max();
  }
  if (config.scheduler == SarathiConfig::Scheduler::kVllm) {
    config.chunk_size = std::min(config.chunk_size, config.max_model_len);
    config.max_model_len = config.chunk_size;
  }
  return config;
}

}  // namespace

std::span<const CaseName> SarathiConfig::CaseNames() { return kSarathiCaseNames; }

void SarathiConfig::Validate() const {
  RequireField(scheduler == Scheduler::kSarathi || pipeline_parallel_size == 1,
               "sarathi.pipeline_parallel_size", pipeline_parallel_size,
               "must be 1 unless scheduler is sarathi");
  RequireField(scheduler == Scheduler::kSarathi || !enable_dynamic_chunking_schedule,
               "sarathi.enable_dynamic_chunking_schedule", enable_dynamic_chunking_schedule,
               "must be false unless scheduler is sarathi");
  if (order) order->ValidateWithoutPreemption(kName);
  if (slack_chunking) {
    slack_chunking->Validate(kName, chunk_size);
    RequireField(order && order->kind == OrderConfig::Kind::kEdf, "sarathi.order.kind",
                 "another order", "must be edf with slack_chunking");
    RequireField(scheduler == Scheduler::kSarathi && pipeline_parallel_size == 1 &&
                     !enable_dynamic_chunking_schedule,
                 "sarathi.slack_chunking", "set",
                 "must be unset with another scheduler, with several steps in flight, and with "
                 "enable_dynamic_chunking_schedule");
  }
  if (!enable_dynamic_chunking_schedule) return;
  const std::string positive = "must be at least 1 with enable_dynamic_chunking_schedule";
  RequireField(low_chunk_size >= 1, "sarathi.low_chunk_size", low_chunk_size, positive);
  RequireField(chunk_schedule_max_tokens >= 1, "sarathi.chunk_schedule_max_tokens",
               chunk_schedule_max_tokens, positive);
  RequireField(chunk_schedule_stages >= 1 && chunk_schedule_stages <= 1024,
               "sarathi.chunk_schedule_stages", chunk_schedule_stages,
               "must be 1 to 1024 with enable_dynamic_chunking_schedule");
  RequireField(high_chunk_size >= low_chunk_size, "sarathi.high_chunk_size", high_chunk_size,
               AtLeastField("low_chunk_size", low_chunk_size));
}

PolicyTraits SarathiConfig::Traits() const {
  PolicyTraits traits;
  traits.name = kName;
  traits.memory_rule = "sarathi";
  traits.context_tokens_max = max_model_len;
  // A batch of many decodes may pass the chunk size, so that it bounds no step.
  traits.sized_for_tokens = enable_dynamic_chunking_schedule ? high_chunk_size : chunk_size;
  traits.sequences_per_step_max = max_num_seqs;
  traits.steps_in_flight_max = pipeline_parallel_size;
  if (pipeline_parallel_size > 1) traits.result_queue = ResultQueue::kPipeline;
  if (order) order->SetTraits(traits);
  return traits;
}

SarathiPolicy::SarathiPolicy(const SarathiConfig& config, std::int32_t blocks)
    : config_(WithReleaseDefaults(config)),
      traits_(config.Traits()),
      watermark_blocks_(
          static_cast<std::int32_t>(std::floor(config.watermark * static_cast<double>(blocks)))),
      waiting_(config.order.value_or(OrderConfig{})) {
  if (config.enable_dynamic_chunking_schedule) {
    stage_sizes_ = StageSizes(config);
    stage_tokens_ = (config.chunk_schedule_max_tokens - 1) / config.chunk_schedule_stages + 1;
  }
}

void SarathiPolicy::Enqueue(const Sequence& sequence) { waiting_.PushArrival(sequence); }

void SarathiPolicy::Remove(const Sequence& sequence) {
  if (std::erase(running_, sequence.id) == 0) waiting_.Erase(sequence);
  relegated_.erase(sequence.id);
}

std::optional<DecodeLimits> SarathiPolicy::DecodeStreakLimits() const {
  // With several steps in flight each has only a part of the running requests.
  if (traits_.steps_in_flight_max > 1 || !waiting_.OrderIsFixedWhileDecoding()) return std::nullopt;
  // The next turn is that of the waiting requests.
  if (config_.scheduler == SarathiConfig::Scheduler::kSimpleChunking && !waiting_.empty()) {
    return std::nullopt;
  }
  // Waiting requests did not fit into the blocks, the batch or the chunk; no more room comes.
  return DecodeLimits{.free_blocks_min = 1, .after_ends = true};
}

void SarathiPolicy::Plan(StepBuilder& step) {
  prefills_.clear();
  decodes_.clear();
  victims_.clear();
  tokens_ = 0;
  turn_was_empty_ = false;
  chunk_limit_ = config_.chunk_size;
  switch (config_.scheduler) {
    case SarathiConfig::Scheduler::kSarathi:
      config_.slack_chunking ? PlanWithinSlack(step) : PlanHybrid(step);
      break;
    case SarathiConfig::Scheduler::kVllm:
      PlanPrefillsFirst(step);
      break;
    case SarathiConfig::Scheduler::kSimpleChunking:
      PlanTurn(step);
      break;
  }
  waiting_.ChargeStep(step);
}

void SarathiPolicy::PlanHybrid(StepBuilder& step) {
  RunningPass(step);
  SchedulePrefills(step);
  WaitingPass(step);
  ScheduleDecodes(step);
}

void SarathiPolicy::PlanPrefillsFirst(StepBuilder& step) {
  const std::size_t rejected = step.plan().rejected.size();
  WaitingPass(step);
  prefilling_ = false;
  // A call that only rejects decodes nothing either.
  if (!step.plan().work.empty() || step.plan().rejected.size() > rejected) return;
  RunningPass(step);
  ScheduleDecodes(step);
}

void SarathiPolicy::PlanTurn(StepBuilder& step) {
  if (!decodes_next_) {
    const std::size_t rejected = step.plan().rejected.size();
    std::sort(running_.begin(), running_.end());
    for (const RequestId id : running_) {
      if (!step.sequence(id).decodes) prefills_.push_back(id);
    }
    const bool none_running = prefills_.empty();
    SchedulePrefills(step);
    if (none_running) WaitingPass(step);
    decodes_next_ = !step.plan().work.empty() || step.plan().rejected.size() > rejected;
    if (decodes_next_) return;
  }
  decodes_next_ = false;
  RunningPass(step);
  ScheduleDecodes(step);
  turn_was_empty_ = step.plan().empty();
}

// Running prefills need no memory: their whole prompts hold blocks since admission.
void SarathiPolicy::SchedulePrefills(StepBuilder& step) {
  prefilling_ = false;
  for (const RequestId id : prefills_) {
    const Sequence& s = step.sequence(id);
    const std::int32_t chunk = Chunk(s.computed, s.known - s.computed);
    if (chunk > 0) step.Schedule(s, chunk);
    tokens_ += chunk;
    prefilling_ |= !s.decodes;
  }
}

void SarathiPolicy::ScheduleDecodes(StepBuilder& step) {
  const std::size_t decodes = step.ScheduleDecodes(decodes_);
  CHECK(decodes == decodes_.size());
}

void SarathiPolicy::RunningPass(StepBuilder& step) {
  if (!std::is_sorted(running_.begin(), running_.end())) {
    std::sort(running_.begin(), running_.end());
  }
  visiting_.swap(running_);
  running_.clear();
  for (std::size_t i = ServeAllDecoding(step); i < visiting_.size(); ++i) {
    const RequestId id = visiting_[i];
    const Sequence& s = step.sequence(id);
    if (s.in_flight > 0) {
      running_.push_back(id);
    } else if (!s.decodes) {
      prefills_.push_back(id);
    } else if (MakeRoom(step, id, i + 1)) {
      CHECK(step.Grow(s, s.known));
      decodes_.push_back(id);
      ++tokens_;
    }
  }
  visiting_.clear();
  running_.insert(running_.end(), decodes_.begin(), decodes_.end());
  running_.insert(running_.end(), prefills_.begin(), prefills_.end());
}

// Prompts stand before decodes in a batch. Where there will be none, decodes enter the step at
// once. (A decode that is preempted after that blocks admission: see Remaining.)
std::size_t SarathiPolicy::ServeAllDecoding(StepBuilder& step) {
  if (!waiting_.empty() || prefilling_ || traits_.steps_in_flight_max > 1) return 0;
  const std::size_t count = step.ScheduleDecodes(visiting_, {.free_blocks_min = 1});
  running_.assign(visiting_.begin(), visiting_.begin() + static_cast<std::ptrdiff_t>(count));
  tokens_ += static_cast<std::int32_t>(count);
  return count;
}

bool SarathiPolicy::MakeRoom(StepBuilder& step, RequestId id, std::size_t next) {
  while (step.pool().free() == 0) {
    std::size_t last = visiting_.size();
    while (last > next && step.sequence(visiting_[last - 1]).in_flight > 0) --last;
    if (last == next) {
      Preempt(step, id);
      return false;
    }
    Preempt(step, visiting_[last - 1]);
    visiting_.erase(visiting_.begin() + static_cast<std::ptrdiff_t>(last - 1));
  }
  return true;
}

void SarathiPolicy::Preempt(StepBuilder& step, RequestId id) {
  const Sequence& s = step.sequence(id);
  victims_.push_back({id, s.decodes ? 0 : s.known - s.computed});
  step.PreemptByRecompute(id);
  waiting_.PushPreempted(s);
}

// Sarathi-Serve resets a victim only after the call: until then it still counts what was left of
// its prefill, so that a decode has nothing left and blocks admission.
std::int32_t SarathiPolicy::Remaining(const Sequence& s) const {
  for (const Victim& victim : victims_) {
    if (victim.id == s.id) return victim.remaining;
  }
  return s.known;
}

std::int32_t SarathiPolicy::Chunk(std::int32_t processed, std::int32_t remaining) const {
  std::int32_t size = chunk_limit_;
  if (config_.enable_dynamic_chunking_schedule) {
    const auto stage =
        std::min(static_cast<std::size_t>(processed / stage_tokens_), stage_sizes_.size() - 1);
    size = stage_sizes_[stage];
  }
  return std::max(0, std::min(remaining, size - tokens_));
}

bool SarathiPolicy::RejectIfNever(StepBuilder& step, RequestId id) {
  const Sequence& s = step.sequence(id);
  const bool whole_prompts = config_.scheduler == SarathiConfig::Scheduler::kVllm;
  const bool too_long = (whole_prompts ? s.known : s.prompt_tokens) > config_.max_model_len;
  const std::int32_t blocks = step.pool().BlocksFor(s.known) + watermark_blocks_;
  if (!too_long && blocks <= step.pool().usable()) return false;
  step.Reject(id, too_long ? RejectReason::kTooLongForModel : RejectReason::kTooLargeForCache);
  waiting_.PopFront();
  return true;
}

bool SarathiPolicy::HasRoom(const StepBuilder& step, const Sequence& s) const {
  return step.pool().BlocksFor(s.known) + watermark_blocks_ <= step.pool().free() &&
         static_cast<std::int32_t>(running_.size()) < config_.max_num_seqs;
}

void SarathiPolicy::WaitingPass(StepBuilder& step) {
  const bool whole_prompts = config_.scheduler == SarathiConfig::Scheduler::kVllm;
  while (!waiting_.empty()) {
    const RequestId id = waiting_.front();
    if (RejectIfNever(step, id)) continue;
    const Sequence& s = step.sequence(id);
    if (!HasRoom(step, s)) break;
    const std::int32_t chunk = Chunk(0, Remaining(s));
    if (chunk == 0 || (whole_prompts && chunk < s.known)) break;
    waiting_.PopFront();
    waiting_.Admitted(s);
    step.Admit(id);
    CHECK(step.Grow(id, s.known));
    step.Schedule(s, chunk);
    tokens_ += chunk;
    prefilling_ |= !s.decodes;
    running_.push_back(id);
  }
}

}  // namespace twin
