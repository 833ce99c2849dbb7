// The speed probe of a model on the CPU: matrix products of one of its layers.
#pragma once

#include <cstddef>

#include "exec/cpu/cpu_operations.h"
#include "exec/speed_probe.h"

namespace twin::exec {

// Experts of mixtures are left out. Each run takes the next layer, so that its weights are as cold
// in the caches as in a step.
class CpuSpeedProbe final : public SpeedProbe {
 public:
  // Borrows the weights behind `matrices`, and the pool.
  CpuSpeedProbe(ModelMatrices matrices, kernels::ThreadPool& pool);

  ProbeSeconds Run() override;

 private:
  // Seconds of all products of a layer.
  double Multiply(const ModelMatrices::Layer& layer, std::int64_t rows);

  ModelMatrices matrices_;
  kernels::ThreadPool& pool_;
  std::size_t next_layer_ = 0;
  kernels::AlignedBuffer input_;
  kernels::AlignedBuffer output_;
};

}  // namespace twin::exec
