// Triton's dynamic batching: requests wait up to a delay window for further requests in a batch.
//
// A model has one queue and `instance_count` copies, each of which runs one batch at a time. While
// a copy is idle, the batcher looks at the first max_batch_size requests of the queue:
//   1. the largest preferred size that they fill is sent, unless the oldest of them has waited for
//      the delay window;
//   2. else all of them are sent if more requests wait, or if they fill the largest preferred size;
//   3. else all of them are sent if the oldest has waited for the window, or there is no window;
//   4. else the batcher waits until the window of the oldest ends, or for the next arrival.
// Without preferred sizes, max_batch_size is the only one. A batch then runs to its end, as in
// static batching (sched/policy/closed_batch.h).
//
// Another order than that of arrival (order_config.h) takes the place of levels of priority. The
// window then is that of the oldest among the requests that the order puts first.
//
// Source: triton-inference-server/core, dynamic_batch_scheduler.cc.
//
// Easy to get wrong:
// - With a delay of 0 the first request of a burst runs alone, and the later ones wait for it.
// - A window that has ended overrules preferred sizes: everything that the batch can hold is sent.
// - The window of a request counts from its arrival, also while no copy is idle.
//
// Not modelled: queue limits and time-outs, ragged inputs (all requests can share a batch), and
// preserve_ordering, which delays answers but decides nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sched/policy/case_name.h"
#include "sched/policy/closed_batch.h"
#include "sched/policy/context_field.h"
#include "sched/policy/order_config.h"
#include "sched/policy/ordered_queue.h"
#include "sched/policy/policy.h"

namespace twin {

struct TritonConfig {
  static constexpr const char* kName = "triton";

  std::int32_t max_batch_size = 8;
  std::vector<std::uint32_t> preferred_batch_size = {};  // empty: max_batch_size
  std::int64_t max_queue_delay_microseconds = 0;         // 0: a copy that is idle never waits
  // Copies of the model. Runs take 1: a copy has devices and memory of its own.
  std::int32_t instance_count = 1;
  // Levels 1 (first) to priority_levels; 0: priorities of requests are not looked at.
  std::int32_t priority_levels = 0;
  // The level of requests with a priority beyond the levels.
  std::int32_t default_priority_level = 0;
  // Whether the backend pads rows to the longest prompt, and computes finished rows until the last
  // one ends. False: neither, and each row reserves max_model_len tokens.
  bool padded = true;
  std::int32_t max_model_len = 0;                   // 0 = the model's context
  std::optional<OrderConfig> order = std::nullopt;  // unset: by level and arrival

  static constexpr ContextField kContextField = {"max_model_len", &TritonConfig::max_model_len};

  [[nodiscard]] PolicyTraits Traits() const;
  void Validate() const;
  static std::span<const CaseName> CaseNames();
  bool operator==(const TritonConfig&) const = default;
};

// Why a batch was sent.
enum class BatchReason : std::uint8_t { kPreferred, kFull, kDelay, kNoDelay };
std::string_view BatchReasonName(BatchReason reason);
// The gauge that tells the BatchReason of the latest batch.
inline constexpr std::string_view kBatchReasonGauge = "batch_reason";

class TritonPolicy final : public Policy {
 public:
  explicit TritonPolicy(const TritonConfig& config);

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override;
  void Remove(const Sequence& sequence) override;
  void StepReturned(const StepPlan& plan) override;
  void CollectReleases(std::vector<RequestId>& finished) override;
  void Plan(StepBuilder& step) override;
  [[nodiscard]] std::optional<DecodeLimits> DecodeStreakLimits() const override;
  [[nodiscard]] TimePoint WakeAt() const override { return wake_at_; }
  [[nodiscard]] std::span<const Gauge> Gauges() const override { return {&reason_, 1}; }

 private:
  struct Instance {
    ClosedBatch batch;
    StepId in_flight{};  // kNoStep: none
  };
  struct Decision {
    std::int32_t requests = 0;  // 0: wait
    BatchReason reason{};
  };
  static constexpr StepId kNoStep{0};

  void PlanBatch(StepBuilder& step);
  [[nodiscard]] OrderedQueue& LevelOf(std::int32_t priority);
  // The batch to send to an idle copy; sets wake_at_ if it waits. REQUIRES: requests wait.
  [[nodiscard]] Decision Decide(const StepBuilder& step);
  // The first arrival among the first `requests` of the queue.
  [[nodiscard]] TimePoint OldestArrival(const StepBuilder& step, std::int32_t requests);
  [[nodiscard]] TimePoint OldestInOrder(const StepBuilder& step, std::int32_t requests);
  void FormBatch(StepBuilder& step, Instance& instance, std::int32_t requests);

  TritonConfig config_;
  PolicyTraits traits_;
  std::vector<std::int32_t> preferred_;  // ascending, not empty
  std::vector<OrderedQueue> levels_;     // first level first
  std::vector<Instance> instances_;
  std::int32_t waiting_ = 0;
  std::vector<RequestId> first_;  // scratch
  TimePoint wake_at_ = kTimeNever;
  Gauge reason_{kBatchReasonGauge, 0};
};

}  // namespace twin
