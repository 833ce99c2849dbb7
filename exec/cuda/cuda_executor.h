// Carries out the steps of an engine on a CUDA device.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exec/cuda/batch_builder.h"
#include "exec/cuda/cuda_model.h"
#include "exec/cuda/decode_graphs.h"
#include "exec/cuda/step_arena.h"
#include "exec/cuda/step_clock.h"
#include "exec/executor.h"
#include "exec/open_requests.h"
#include "kernels/cuda/attention.h"

namespace twin::exec::cuda {

// Launch() puts a step together and gives it to the device; Collect() waits for the oldest one. Up
// to kStepsMax may be on their way: what one samples goes to the next on the device, so that the
// next can be given to it before anybody has seen the token.
//
// Time: a step begins when it is launched, or when the one before it has ended; `build` is what
// passes until the device has the inputs and whatever the device was idle for. Of steps whose
// kernels are launched one by one the device measures every operation. Of replayed ones it measures
// every kDetailInterval-th so, and the others as a whole, divided as the last measured one of their
// batch size.
class CudaExecutor final : public Executor {
 public:
  static constexpr std::size_t kStepsMax = 8;

  // Borrows the model, of which no other executor computes meanwhile. Captures graphs for batches
  // of up to the model's largest step. Throws DeviceError.
  CudaExecutor(CudaModel& model, const ExecutorConfig& config);
  // Waits for steps on their way.
  ~CudaExecutor() override;

  void Open(RequestId id, std::span<const std::int32_t> prompt,
            const kernels::SamplingParameters& sampling) override {
    requests_.Open(id, prompt, sampling);
  }
  void Close(RequestId id) override { requests_.Close(id); }
  // REQUIRES: fewer than kStepsMax steps are launched and not collected.
  void Launch(const StepPlan& plan) override;
  ComputedStep Collect() override;
  bool Collectable() override;
  // A timer would wake up later than a device ends: the thread that drives one does nothing else.
  [[nodiscard]] std::chrono::microseconds RestBetweenQuestions() const override {
    return std::chrono::microseconds(0);
  }

  [[nodiscard]] bool Knows(const StepPlan& plan) const override { return requests_.Knows(plan); }
  void Learn(const SampledToken& sampled) override;
  [[nodiscard]] const kernels::KvCacheView& device_cache() const override { return cache_; }
  void FillCache(std::uint64_t seed) override;

 private:
  using Clock = LapTimer::Clock;

  // A step on its way: everything of it that lives until it has been collected.
  struct Step {
    Clock::time_point launched;
    std::vector<SampledToken> sampled;       // codes until resolved
    std::vector<std::int32_t> sampled_rows;  // of logits, by entry of `sampled`
    std::vector<LogitRow> kept;              // where logits are returned
    std::vector<std::int32_t> kept_rows;     // likewise
    std::int64_t logit_count = 0;
    bool computes = false;
    bool resolved = false;
    StepParts shares;  // where the time between built and done went, once resolved
    Event built{Event::Kind::kTimed};
    Event done{Event::Kind::kTimed};
    LapEvents laps{LapEvents::Kind::kInStream};
    DecodeGraph* graph = nullptr;
    bool detailed = false;  // of a graph
    PinnedBuffer tokens;    // [logit rows], and one number: logits that are not finite
    PinnedBuffer logits;
  };

  [[nodiscard]] Step& StepAt(std::uint64_t number) { return steps_[number % kStepsMax]; }
  void Swap(std::span<const SwapBatch> batches);
  // Copies runs of blocks that lie side by side on both sides with one call each.
  void SwapRuns(const SwapBatch& batch);
  void Reserve(const StepShape& shape);
  void Compute(const StepPlan& plan, Step& step);
  void ComputeBatch(const DeviceBatch& batch, std::int64_t bucket, Step& step);
  // Model and sampling, launched or captured.
  void Enqueue(const DeviceBatch& batch, LapEvents& laps);
  void TakeEmissions(const StepPlan& plan, Step& step);
  void FetchResults(const StepShape& shape, Step& step);
  // Waits for the step and puts its tokens in the place of their codes.
  void Resolve(Step& step);
  [[nodiscard]] StepParts PartsOf(const Step& step, Duration whole) const;
  // Where graphs are used and none are there: at first, and when something that they read moved.
  void CaptureAll();
  void DropGraphs();
  void Capture(std::int64_t bucket);
  [[nodiscard]] std::int32_t* SampledAt(std::uint64_t number) const {
    return sampled_.As<std::int32_t>() +
           static_cast<std::int64_t>(number % kStepsMax) * sampled_rows_;
  }

  CudaModel& model_;
  ExecutorConfig config_;
  DeviceBuffer device_storage_;
  PinnedBuffer host_storage_;
  kernels::KvCacheView cache_;
  kernels::KvCacheView host_cache_;
  OpenRequests requests_;
  BatchBuilder builder_;
  StepArena arena_;
  std::unique_ptr<kernels::cuda::PagedAttention> attention_;
  StepShape attention_room_;
  DeviceBuffer sampled_;  // a ring of kStepsMax steps' tokens, sampled_rows_ each
  std::int64_t sampled_rows_ = 0;
  DeviceBuffer not_finite_;
  kernels::cuda::DeviceMatrix logits_;  // of the step enqueued last
  std::vector<std::uint32_t> buckets_;  // that single-token steps are padded to, ascending
  DecodeGraphs graphs_;
  bool graphs_stale_ = true;
  Event idle_{Event::Kind::kOrder};
  Event swapped_{Event::Kind::kOrder};
  std::array<Step, kStepsMax> steps_;
  std::uint64_t launched_ = 0;   // steps so far
  std::uint64_t collected_ = 0;  // likewise
  Clock::time_point last_end_{};
  std::vector<std::int32_t> told_order_;
};

}  // namespace twin::exec::cuda
