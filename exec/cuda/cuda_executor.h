// Executes the steps of an engine on a CUDA device.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/check.h"
#include "core/step_parts.h"
#include "exec/cuda/batch_builder.h"
#include "exec/cuda/cuda_model.h"
#include "exec/cuda/step_arena.h"
#include "exec/cuda/step_clock.h"
#include "exec/cuda/stream.h"
#include "exec/executor.h"
#include "exec/open_requests.h"
#include "kernels/cuda/attention.h"
#include "kernels/top_logits.h"

namespace twin::exec::cuda {

// Every kDetailInterval-th replay is timed operation by operation.
constexpr std::int32_t kDetailInterval = 64;

// A step captured twice: `detailed` with events between its operations, `plain` without them.
// `plain` is faster.
struct DecodeGraph {
  Graph plain;
  Graph detailed;
  LapEvents laps{LapEvents::Kind::kInGraph};  // of `detailed`
  StepParts shares;                           // parts of the time of the last detailed replay
  DetailTurns turns{kDetailInterval};
  bool laps_in_use = false;  // a detailed replay has not been read yet

  // Chooses and counts the next replay: true for `detailed`. ReadLaps() must follow when it has
  // ended.
  bool NextIsDetailed();
  // REQUIRES: the detailed replay has ended.
  void ReadLaps();
};

using DecodeGraphs = std::map<std::int64_t, DecodeGraph>;  // by batch size

// Launch() builds a step and enqueues it on the device; Collect() waits for the oldest launched
// step. Up to kStepsMax steps may be in flight. Sampled tokens are passed from step to step in
// device memory, so that a step can be launched before the host has the tokens of the previous one.
//
// Time: a step starts when it is launched or when the previous step has ended, whichever is later.
// `build` is the time until the inputs are on the device, plus idle time of the device. Events
// between all operations cost time, so that few steps are timed with them: one in kDetailInterval
// of a graph's replays, and one in kLaunchedDetailInterval of the steps of a kind whose kernels are
// launched one by one. Other steps are timed as a whole, and their time is divided in the
// proportions of the last step of their graph or kind that was timed in detail.
class CudaExecutor final : public Executor {
 public:
  static constexpr std::size_t kStepsMax = kStepsInFlightMax;
  static constexpr std::int32_t kLaunchedDetailInterval = 16;

  // Borrows the model; no other executor may use it at the same time. Captures graphs for batches
  // up to the model's largest step. Throws DeviceError.
  CudaExecutor(CudaModel& model, const ExecutorConfig& config);
  // Waits for the steps in flight.
  ~CudaExecutor() override;

  void Open(RequestId id, std::span<const std::int32_t> prompt,
            const kernels::SamplingParameters& sampling) override {
    CHECK(sampling.logprobs <= kernels::kTopLogitsMax);
    requests_.Open(id, prompt, sampling);
  }
  void Close(RequestId id) override { requests_.Close(id); }
  // REQUIRES: fewer than kStepsMax steps are in flight (launched and not collected).
  void Launch(const StepPlan& plan) override;
  ComputedStep Collect() override;
  bool Collectable() override;
  // Zero = busy polling: a timer would wake up after the step has ended, and the thread that drives
  // a device has no other work.
  [[nodiscard]] std::chrono::microseconds RestBetweenQuestions() const override {
    return std::chrono::microseconds(0);
  }

  [[nodiscard]] bool HasTokensFor(const StepPlan& plan) const override {
    return requests_.HasTokensFor(plan);
  }
  void StoreToken(const SampledToken& sampled) override;
  [[nodiscard]] const kernels::KvCacheView& device_cache() const override { return cache_; }
  void FillCache(std::uint64_t seed) override;

 private:
  using Clock = LapTimer::Clock;

  // Steps of about the same size whose kernels are launched one by one.
  struct LaunchedKind {
    DetailTurns turns{kLaunchedDetailInterval};
    StepParts shares;  // parts of the time of the last step that was timed in detail
  };

  // State of a step from its launch until it has been collected.
  struct Step {
    std::uint64_t number = 0;  // counts the launched steps from 0
    StepShape shape;
    Clock::time_point launched;
    std::vector<SampledToken> sampled;       // carried-token codes until resolved
    std::vector<std::int32_t> sampled_rows;  // rows of logits, by entry of `sampled`
    std::vector<std::int32_t>
        asked_logprobs;  // SamplingParameters::logprobs, by entry of `sampled`
    bool asks_logprobs = false;
    std::vector<LogitRow> kept;           // if logits are returned
    std::vector<std::int32_t> kept_rows;  // rows of logits, by entry of `kept`
    std::int64_t logit_count = 0;
    bool computes = false;
    bool resolved = false;
    StepParts shares;  // parts of the time from built to done, once resolved
    Event built{Event::Kind::kTimed};
    Event done{Event::Kind::kTimed};
    LapEvents laps{LapEvents::Kind::kInStream};
    DecodeGraph* graph = nullptr;
    LaunchedKind* kind = nullptr;  // of a step that is not replayed from a graph
    bool detailed = false;         // timed operation by operation
    PinnedBuffer tokens;           // [1 + logit rows]: number of non-finite logits, then the tokens
    PinnedBuffer top_logits;       // [logit rows]; written if asks_logprobs
    PinnedBuffer logits;           // of all rows, if logits are returned
  };

  [[nodiscard]] Step& StepAt(std::uint64_t number) { return steps_[number % kStepsMax]; }
  void Swap(std::span<const SwapBatch> batches);
  // Copies each run of blocks that is contiguous on both sides with one call.
  void SwapRuns(const SwapBatch& batch);
  void Reserve(const StepShape& shape);
  void Compute(const StepPlan& plan, Step& step);
  // The shape of the batch that was arranged last, with room for its attention's plan.
  [[nodiscard]] StepShape PlannedShape() const;
  void ComputeBatch(const DeviceBatch& batch, std::int64_t bucket, Step& step);
  // Launches the kernels of a batch one by one.
  void LaunchKernels(const DeviceBatch& batch, Step& step);
  // Enqueues the model and the sampling, for execution or capture.
  void Enqueue(const DeviceBatch& batch, LapEvents& laps);
  void TakeEmissions(const StepPlan& plan, Step& step);
  void FetchResults(const DeviceBatch& batch, Step& step);
  void FetchLogits(Step& step);
  // Collects the log-probabilities that requests ask for.
  void ReportLogprobs(Step& step);
  void Await(const Step& step) const;
  // Waits for the step and replaces the carried-token codes by its tokens.
  void Resolve(Step& step);
  // Sets step.shares. REQUIRES: the step has ended.
  void ReadShares(Step& step);
  [[nodiscard]] StepParts PartsOf(const Step& step, Duration whole) const;
  // Builds a batch and sends its inputs to the device. The sampled tokens go to a place after the
  // ring, because steps in flight may still read the ring. REQUIRES: the batch is within the
  // largest step. `bucket` is as in BatchOptions.
  DeviceBatch Stage(const StepPlan& plan, const OpenRequests& requests, std::int64_t bucket);
  // Runs steps that launch all kernels: the first launch of a kernel loads it, which would stall a
  // run. Does nothing for models below CudaModelOptions::warmed_bytes_min.
  void WarmUp();
  // Enqueues a step with `decodes` sequences of one token and `prefill` further tokens, where each
  // sequence has `start` earlier tokens in the cache. Does nothing if the step is larger than the
  // largest step or than the cache.
  void WarmUp(std::int64_t decodes, std::int64_t prefill, std::int64_t start = 0);
  // Captures the graphs of all buckets: at construction, and after memory that they read has moved.
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
  DeviceBuffer sampled_;  // ring of tokens: sampled_rows_ for each of kStepsMax steps
  std::int64_t sampled_rows_ = 0;
  DeviceBuffer top_logits_;  // of the last enqueued step
  DeviceBuffer not_finite_;
  kernels::cuda::DeviceMatrix logits_;  // of the last enqueued step
  std::vector<std::uint32_t> buckets_;  // batch sizes that decodes are padded to, ascending
  DecodeGraphs graphs_;
  // The kinds of launched steps, by powers of two of rows and pages.
  std::map<std::array<std::uint64_t, 2>, LaunchedKind> kinds_;
  bool graphs_stale_ = true;
  Event idle_{Event::Kind::kOrder};
  Event swapped_{Event::Kind::kOrder};
  std::array<Step, kStepsMax> steps_;
  std::uint64_t launched_ = 0;   // number of launched steps
  std::uint64_t collected_ = 0;  // number of collected steps
  Clock::time_point last_end_{};
  std::vector<std::int32_t> plan_order_;
  std::vector<kernels::TokenLogprob> logprobs_;  // of the last collected step
};

}  // namespace twin::exec::cuda
