// Runs and times the operations of a model on a CUDA device one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/random.h"
#include "exec/cuda/batch_builder.h"
#include "exec/cuda/cuda_model.h"
#include "exec/cuda/step_clock.h"
#include "exec/profile/operations.h"

namespace twin::exec::cuda {

// The operations are captured into a graph and timed on the device, so that times contain no launch
// overhead, as in a replayed step. The last captured graph is kept, because measurements repeat it.
class CudaOperations final : public Operations {
 public:
  // Borrows the model and overwrites its activations. The cache belongs to an executor of the
  // model.
  CudaOperations(CudaModel& model, const kernels::KvCacheView& cache);
  ~CudaOperations() override;

  GemmSeconds RunGemms(std::int64_t tokens) override;
  double RunHead(std::int64_t rows) override;
  OtherSeconds RunOther(std::int64_t tokens) override;
  double RunAttention(std::span<const StepItem> items) override;
  double RunBlockCopies(std::int64_t blocks) override;
  // Runs the attention of sequences of these lengths, one query each, through all layers as in a
  // graph, computed in a way that serves the model. Returns seconds. REQUIRES: the cache has blocks
  // for the sequences.
  double RunDecodes(const kernels::cuda::DecodeWay& way, std::span<const std::int64_t> lengths);

 private:
  using Work = std::function<void(LapEvents&)>;

  // Arranges requests of these sizes on blocks chosen at random from the whole cache.
  struct Requests {
    OpenRequests open;
    StepPlan plan;
  };
  Requests RequestsOf(std::span<const StepItem> items);
  // Plans the arranged batch and runs it through all layers.
  double RunArranged(const BatchBuilder& builder, const Requests& requests,
                     kernels::cuda::PagedAttention& attention, bool graph);
  // Replays `work` and waits for it. Captures it first unless the kept graph has this `name`.
  const LapEvents& Replay(const std::string& name, const Work& work);
  // Enqueues the mixture of a layer with random rows; records a moment after each part.
  void Mix(const DeviceLayer& layer, std::int64_t tokens, LapEvents& moments);
  // Reserves activations for these rows and fills them with random numbers.
  void Reserve(std::int64_t rows, std::int64_t logit_rows);
  // Fills `to` with `count` numbers 0, 1, ... modulo `modulus`.
  void Number(std::int64_t count, std::int32_t modulus, DeviceBuffer& to);

  CudaModel& model_;
  kernels::KvCacheView cache_;
  Random random_;
  std::unique_ptr<kernels::cuda::PagedAttention> attention_;
  StepShape attention_room_;
  StepArena arena_;
  DeviceBuffer numbers_;
  DeviceBuffer slots_;
  DeviceBuffer copies_;
  std::string captured_;  // name of the work in graph_
  Graph graph_;
  LapEvents laps_{LapEvents::Kind::kInGraph};
  std::int64_t rows_ = 0;
  std::int64_t logit_rows_ = 0;
};

}  // namespace twin::exec::cuda
