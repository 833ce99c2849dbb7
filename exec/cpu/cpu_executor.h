// Executes an engine's steps on the CPU: block operations, then the model, then sampling.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/ring_queue.h"
#include "exec/cpu/cpu_model.h"
#include "exec/cpu/draft_model.h"
#include "exec/cpu/kv_storage.h"
#include "exec/cpu/sequence_states.h"
#include "exec/executor.h"
#include "exec/open_requests.h"
#include "exec/ragged_batch.h"
#include "sched/step_plan.h"

namespace twin::exec {

// Launch() queues a step; Collect() computes it, on the calling thread and the model's pool.
class CpuExecutor final : public Executor {
 public:
  // Borrows the model. Throws std::bad_alloc if the cache does not fit into memory, and InputError
  // (usage) for drafts and host blocks of a model with states.
  CpuExecutor(CpuModel& model, const ExecutorConfig& config);

  void Open(RequestId id, std::span<const std::int32_t> prompt,
            const kernels::SamplingParameters& sampling) override {
    requests_.Open(id, prompt, sampling);
  }
  void Close(RequestId id) override {
    requests_.Close(id);
    states_.Release(id);
  }
  void Launch(const StepPlan& plan) override { launched_.PushBack(&plan); }
  ComputedStep Collect() override;

  [[nodiscard]] bool HasTokensFor(const StepPlan& plan) const override {
    return requests_.HasTokensFor(plan);
  }
  void StoreToken(const SampledToken& sampled) override;
  [[nodiscard]] const kernels::KvCacheView& device_cache() const override { return device_.view(); }
  void FillCache(std::uint64_t seed) override;
  [[nodiscard]] const kernels::KvCacheView* readable_cache() const override {
    return &device_.view();
  }
  void CopyBlocks(const kernels::KvCacheView& from,
                  std::span<const kernels::BlockCopy> copies) override {
    kernels::CopyBlocks(model_.pool(), from, device_.view(), copies);
  }

  // Computes one step to its end. Returns the tokens of emitting items, in the order of the plan's
  // work; valid until the next call. REQUIRES: no step is launched; the plan follows from the steps
  // executed before.
  std::span<const SampledToken> Execute(const StepPlan& plan);
  // The drafts of the latest step, as in ComputedStep; valid until the next step.
  [[nodiscard]] std::span<const ItemDrafts> drafts() const { return drafts_; }
  // The logits of the latest step, in the order of its rows; valid until the next step.
  [[nodiscard]] std::span<const LogitRow> logits() const { return logit_rows_; }
  // When the latest step began and ended, and its time by part.
  [[nodiscard]] const LapTimer& laps() const { return model_.laps(); }
  // The request's prompt and output so far.
  [[nodiscard]] std::span<const std::int32_t> tokens(RequestId id) const {
    return requests_[id].tokens;
  }
  [[nodiscard]] const KvStorage& host_cache() const { return host_; }

 private:
  void Swap(const SwapBatch& batch);
  void BuildBatch(const StepPlan& plan);
  // The tokens of an item with drafts: the drafts are stored apart from the known tokens.
  [[nodiscard]] std::span<const std::int32_t> TokensWithDrafts(const WorkItem& item);
  void Sample(const StepPlan& plan, kernels::MatrixView<const float> logits);
  void Propose(const StepPlan& plan);

  CpuModel& model_;
  ExecutorConfig config_;
  KvStorage device_;
  KvStorage host_;
  OpenRequests requests_;
  SequenceStates states_;
  RingQueue<const StepPlan*> launched_;
  RaggedBatch batch_;
  std::vector<BatchItem> items_;
  std::vector<std::int32_t>
      unread_tokens_;  // stand in for token ids on stages after the first, which do not read them
  std::vector<LogitRow> logit_rows_;
  std::vector<SampledToken> sampled_;
  std::vector<kernels::TokenLogprob> logprobs_;
  std::vector<std::int32_t> drafted_tokens_;  // of a step's items with drafts
  std::vector<ItemDrafts> drafts_;
  std::optional<DraftModel> draft_model_;
};

}  // namespace twin::exec
