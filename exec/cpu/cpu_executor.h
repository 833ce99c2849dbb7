// Carries out the steps of an engine on the CPU: block operations, then the model, then sampling.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/id_window.h"
#include "core/ids.h"
#include "exec/backend.h"
#include "exec/cpu/cpu_model.h"
#include "exec/cpu/kv_storage.h"
#include "exec/cpu/ragged_batch.h"
#include "kernels/kv_copy.h"
#include "kernels/sampling.h"
#include "sched/step_plan.h"

namespace twin::exec {

struct CpuExecutorConfig {
  DType kv_dtype = DType::kFp32;  // kFp32 or kBf16
  std::int32_t block_size = 16;
  std::int32_t blocks = 0;          // as the engine's pool
  std::int32_t host_blocks = 0;     // likewise
  bool logits_of_all_rows = false;  // otherwise of the emitting ones only
};

// Keeps each request's tokens and block table, the latter by following the plans. Steps are
// executed in the order of planning, each to its end; equal plans give equal tokens.
//
// Of a model that is one stage of several: the first computes from the tokens, the last samples.
// What the last one sampled has to be told to the first before a plan needs it.
class CpuExecutor {
 public:
  // Borrows the model. Throws std::bad_alloc if the cache does not fit into memory.
  CpuExecutor(CpuModel& model, const CpuExecutorConfig& config);

  // A request that plans may speak of from now on. REQUIRES: ids rise; tokens below vocab.
  void Open(RequestId id, std::span<const std::int32_t> prompt,
            const kernels::SamplingParameters& sampling);
  // Forgets it. REQUIRES: no later plan carries work for it.
  void Close(RequestId id);

  // Tokens of emitting items, in the order of the plan's work; valid until the next call.
  // REQUIRES: the plan follows from those executed before.
  std::span<const SampledToken> Execute(const StepPlan& plan);

  // True if this stage has all tokens that the plan computes.
  [[nodiscard]] bool Knows(const StepPlan& plan) const;
  // A token that the last stage sampled: another one than this.
  void Learn(const SampledToken& sampled);

  // Of the step executed last, in the order of its rows; valid until the next one.
  [[nodiscard]] std::span<const LogitRow> logits() const { return logit_rows_; }
  // When that step began and ended, and what it spent its time on.
  [[nodiscard]] const LapTimer& laps() const { return model_.laps(); }
  // Prompt and output so far.
  [[nodiscard]] std::span<const std::int32_t> tokens(RequestId id) const {
    return requests_[id].tokens;
  }
  [[nodiscard]] const KvStorage& device_cache() const { return device_; }
  [[nodiscard]] const KvStorage& host_cache() const { return host_; }

 private:
  struct OpenRequest {
    std::vector<std::int32_t> tokens;
    std::vector<BlockId> blocks;
    std::vector<BlockId> host_blocks;  // while swapped out, or on the way
    kernels::SamplingParameters sampling;
  };

  void Apply(const KvOperation& operation);
  void Copy(KvOperation::Kind kind, BlockId from, BlockId to);
  // Carries out the copies collected so far: all in one direction.
  void FlushCopies();
  void BuildBatch(const StepPlan& plan);
  void Sample(const StepPlan& plan, kernels::MatrixView<const float> logits);

  CpuModel& model_;
  CpuExecutorConfig config_;
  KvStorage device_;
  KvStorage host_;
  IdWindow<OpenRequest> requests_;
  std::vector<kernels::BlockCopy> copies_;
  KvOperation::Kind copy_kind_ = KvOperation::Kind::kSwapOut;
  RaggedBatch batch_;
  std::vector<BatchItem> items_;
  std::vector<std::int32_t> unread_tokens_;  // in place of those that a later stage does not read
  std::vector<LogitRow> logit_rows_;
  std::vector<SampledToken> sampled_;
};

}  // namespace twin::exec
