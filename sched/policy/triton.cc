#include "sched/policy/triton.h"

#include <algorithm>

#include "sched/policy/field_check.h"
#include "sched/step_builder.h"

namespace twin {
namespace {

// The cases give the time of a batch, which is no parameter of the batcher.
constexpr RenamedParameter kTritonInCases[] = {{"batch_time_us", ""},
                                               {"batch_time_per_request_us", ""}};
constexpr CaseName kTritonCaseNames[] = {{.name = "triton"},
                                         {.name = "triton_dynamic", .renamed = kTritonInCases}};

constexpr std::int64_t kDelayMost = 1'000'000'000'000;  // 11 days

}  // namespace

std::string_view BatchReasonName(BatchReason reason) {
  constexpr std::string_view kNames[] = {"preferred", "full", "delay", "no_delay"};
  return kNames[static_cast<std::size_t>(reason)];
}

std::span<const CaseName> TritonConfig::CaseNames() { return kTritonCaseNames; }

void TritonConfig::Validate() const {
  for (const std::uint32_t size : preferred_batch_size) {
    RequireField(size >= 1 && size <= static_cast<std::uint32_t>(max_batch_size),
                 "triton.preferred_batch_size", size,
                 AtMostField("max_batch_size", max_batch_size) + " and at least 1");
  }
  RequireField(max_queue_delay_microseconds >= 0 && max_queue_delay_microseconds <= kDelayMost,
               "triton.max_queue_delay_microseconds", max_queue_delay_microseconds,
               fmt::format("must be 0 to {}", kDelayMost));
  RequireField(instance_count >= 1 && instance_count <= 1024, "triton.instance_count",
               instance_count, "must be 1 to 1024");
  RequireField(priority_levels >= 0 && priority_levels <= 1024, "triton.priority_levels",
               priority_levels, "must be 0 to 1024");
  if (priority_levels > 0) {
    RequireField(default_priority_level >= 1 && default_priority_level <= priority_levels,
                 "triton.default_priority_level", default_priority_level,
                 fmt::format("must be 1 to priority_levels ({})", priority_levels));
  }
  if (!order) return;
  order->ValidateWithoutPreemption(kName);
  RequireField(priority_levels == 0, "triton.priority_levels", priority_levels,
               "must be 0 with triton.order, which takes its place");
}

PolicyTraits TritonConfig::Traits() const {
  PolicyTraits traits;
  traits.name = kName;
  traits.context_tokens_max = padded ? 0 : max_model_len;
  traits.outputs_end_at_context = true;
  traits.step_engine = "tgis";
  traits.sequences_per_step_max = max_batch_size;
  traits.steps_in_flight_max = std::max(1, instance_count);
  traits.result_queue = instance_count > 1 ? ResultQueue::kInstances : ResultQueue::kSynchronous;
  traits.preempts = false;
  traits.reserves_context = !padded;
  traits.first_come_first_served = priority_levels == 0;
  if (order) order->SetTraits(traits);
  traits.defers_release = padded;
  traits.delivery = padded ? Delivery::kBatchEnd : Delivery::kPerStep;
  return traits;
}

TritonPolicy::TritonPolicy(const TritonConfig& config)
    : config_(config),
      traits_(config.Traits()),
      preferred_(config.preferred_batch_size.begin(), config.preferred_batch_size.end()),
      levels_(static_cast<std::size_t>(std::max(1, config.priority_levels)),
              OrderedQueue(config.order.value_or(OrderConfig{}))),
      instances_(static_cast<std::size_t>(config.instance_count),
                 {ClosedBatch(config.padded, config.max_model_len), kNoStep}) {
  if (!config.padded) RequireAtLeast("triton.max_model_len", config.max_model_len, 1);
  if (preferred_.empty()) preferred_.push_back(config.max_batch_size);
  std::sort(preferred_.begin(), preferred_.end());
}

OrderedQueue& TritonPolicy::LevelOf(std::int32_t priority) {
  if (config_.priority_levels == 0) return levels_.front();
  const bool known = priority >= 1 && priority <= config_.priority_levels;
  return levels_[static_cast<std::size_t>(known ? priority : config_.default_priority_level) - 1];
}

void TritonPolicy::Enqueue(const Sequence& sequence) {
  LevelOf(sequence.priority).PushArrival(sequence);
  ++waiting_;
}

void TritonPolicy::Remove(const Sequence& sequence) {
  for (Instance& instance : instances_) {
    if (instance.batch.Remove(sequence.id)) return;
  }
  LevelOf(sequence.priority).Erase(sequence);
  --waiting_;
}

void TritonPolicy::StepReturned(const StepPlan& plan) {
  for (Instance& instance : instances_) {
    if (instance.in_flight == plan.id) instance.in_flight = kNoStep;
  }
}

void TritonPolicy::CollectReleases(std::vector<RequestId>& finished) {
  for (Instance& instance : instances_) {
    // A step in flight still writes into the blocks of requests that were cancelled.
    if (instance.in_flight == kNoStep) instance.batch.CollectReleases(finished);
  }
}

std::optional<DecodeLimits> TritonPolicy::DecodeStreakLimits() const {
  if (instances_.size() > 1 || !levels_.front().OrderIsFixedWhileDecoding()) return std::nullopt;
  return DecodeLimits{};  // until the first of the batch ends, even if requests wait
}

void TritonPolicy::Plan(StepBuilder& step) {
  PlanBatch(step);
  levels_.front().ChargeStep(step);
}

void TritonPolicy::PlanBatch(StepBuilder& step) {
  wake_at_ = kTimeNever;
  Instance* idle = nullptr;
  for (Instance& instance : instances_) {
    if (instance.in_flight != kNoStep) continue;
    if (instance.batch.running()) {
      instance.batch.Decode(step);
      instance.in_flight = step.plan().id;
      return;
    }
    if (idle == nullptr) idle = &instance;
  }
  if (idle == nullptr || waiting_ == 0) return;
  const Decision decision = Decide(step);
  if (decision.requests == 0) return;
  reason_.value = static_cast<double>(decision.reason);
  FormBatch(step, *idle, decision.requests);
}

TritonPolicy::Decision TritonPolicy::Decide(const StepBuilder& step) {
  const std::int32_t pending = std::min(waiting_, config_.max_batch_size);
  const auto above = std::upper_bound(preferred_.begin(), preferred_.end(), pending);
  const Duration window = std::chrono::microseconds(config_.max_queue_delay_microseconds);
  const TimePoint window_end = OldestArrival(step, pending) + window;
  const bool window_over = window > Duration::zero() && step.now() >= window_end;
  if (above != preferred_.begin() && !window_over) return {*(above - 1), BatchReason::kPreferred};
  if (waiting_ > pending || pending >= preferred_.back()) return {pending, BatchReason::kFull};
  if (window_over) return {pending, BatchReason::kDelay};
  if (window == Duration::zero()) return {pending, BatchReason::kNoDelay};
  wake_at_ = window_end;
  return {};
}

TimePoint TritonPolicy::OldestArrival(const StepBuilder& step, std::int32_t requests) {
  if (!levels_.front().first_come_first_served()) return OldestInOrder(step, requests);
  TimePoint oldest = kTimeNever;
  std::int64_t ahead = 0;
  for (const OrderedQueue& level : levels_) {
    if (ahead >= requests) break;
    if (!level.empty()) oldest = std::min(oldest, step.sequence(level.front()).arrival);
    ahead += static_cast<std::int64_t>(level.size());
  }
  return oldest;
}

// Takes them out as a batch would, and puts them back.
TimePoint TritonPolicy::OldestInOrder(const StepBuilder& step, std::int32_t requests) {
  OrderedQueue& waiting = levels_.front();
  TimePoint oldest = kTimeNever;
  first_.clear();
  while (static_cast<std::int32_t>(first_.size()) < requests) {
    const Sequence& s = step.sequence(waiting.PopFront());
    waiting.Admitted(s);
    first_.push_back(s.id);
    oldest = std::min(oldest, s.arrival);
  }
  for (auto back = first_.rbegin(); back != first_.rend(); ++back) {
    waiting.NotAdmitted(step.sequence(*back));
    waiting.PutBack(step.sequence(*back));
  }
  return oldest;
}

void TritonPolicy::FormBatch(StepBuilder& step, Instance& instance, std::int32_t requests) {
  for (OrderedQueue& level : levels_) {
    while (instance.batch.TryAddFront(step, level, requests)) --waiting_;
    if (!level.empty()) break;
  }
  instance.batch.Begin(step);
  if (!step.plan().work.empty()) instance.in_flight = step.plan().id;
}

}  // namespace twin
