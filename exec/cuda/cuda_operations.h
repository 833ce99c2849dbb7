// The operations of a model on a CUDA device, one by one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/random.h"
#include "exec/cuda/cuda_model.h"
#include "exec/cuda/step_clock.h"
#include "exec/profile/operations.h"

namespace twin::exec::cuda {

// Times are the device's, of operations captured into a graph: as in a replayed step, no launch is
// waited for. What was captured last is kept, as measuring repeats.
class CudaOperations final : public Operations {
 public:
  // Borrows the model, whose activations it overwrites; the cache is that of one of its executors.
  CudaOperations(CudaModel& model, const kernels::KvCacheView& cache);
  ~CudaOperations() override;

  GemmSeconds RunGemms(std::int64_t tokens) override;
  double RunHead(std::int64_t rows) override;
  OtherSeconds RunOther(std::int64_t tokens) override;
  double RunAttention(std::span<const StepItem> items) override;
  double RunBlockCopies(std::int64_t blocks) override;

 private:
  using Work = std::function<void(LapEvents&)>;

  // Replays `work`, captured under `name` if it was not yet, and waits for it.
  const LapEvents& Replay(const std::string& name, const Work& work);
  // Room for so many rows, and random numbers in all of it.
  void Reserve(std::int64_t rows, std::int64_t logit_rows);
  // Numbers 0, 1, ... below `modulus`, on the device.
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
  std::string captured_;  // name of what the graph holds
  Graph graph_;
  LapEvents laps_{LapEvents::Kind::kInGraph};
  std::int64_t rows_ = 0;
  std::int64_t logit_rows_ = 0;
};

}  // namespace twin::exec::cuda
