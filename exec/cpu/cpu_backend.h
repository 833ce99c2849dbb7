// Steps computed on the CPU, one after the other.
#pragma once

#include "core/ring_queue.h"
#include "exec/backend.h"
#include "exec/cpu/cpu_executor.h"

namespace twin::exec {

// Launch() queues a step; Collect() computes it, on the calling thread and the model's pool.
class CpuBackend final : public Backend {
 public:
  // Borrows the model. Throws std::bad_alloc if the cache does not fit into memory.
  CpuBackend(CpuModel& model, const CpuExecutorConfig& config) : executor_(model, config) {}

  void Open(RequestId id, std::span<const std::int32_t> prompt,
            const kernels::SamplingParameters& sampling) override {
    executor_.Open(id, prompt, sampling);
  }
  void Close(RequestId id) override { executor_.Close(id); }
  void Launch(const StepPlan& plan) override { launched_.PushBack(&plan); }
  ComputedStep Collect() override;

 private:
  CpuExecutor executor_;
  RingQueue<const StepPlan*> launched_;
};

}  // namespace twin::exec
