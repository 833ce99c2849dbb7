#include "sim/devices/operations/memory_bound_model.h"

namespace twin::sim {

double MemoryBoundBytes(MemoryBoundKernel kernel, const MemoryBoundShape& shape, double rows) {
  constexpr double kBytes = 2;
  const double heads = shape.query_heads + shape.kv_heads;
  switch (kernel) {
    case MemoryBoundKernel::kEmbedding:
      return rows * 2 * shape.hidden * kBytes;
    case MemoryBoundKernel::kNorm:  // input and residual in, norm and residual out
      return rows * 4 * shape.hidden * kBytes;
    case MemoryBoundKernel::kHeadNorm:
      return rows * 2 * heads * shape.head_dim * kBytes;
    case MemoryBoundKernel::kRotary:
      return rows * 2 * heads * shape.head_dim * kBytes;
    case MemoryBoundKernel::kActivation:
      return rows * 3 * shape.intermediate * kBytes;
    case MemoryBoundKernel::kResidualAdd:
      return rows * 3 * shape.hidden * kBytes;
    case MemoryBoundKernel::kSampling:  // logits in, as fp32 out, and in again
      return rows * shape.vocabulary * (kBytes + 4 + 4);
  }
  return 0;
}

MemoryBoundModel::MemoryBoundModel(const HardwareSpec& hardware, const MemoryBoundProfile& profile)
    : limits_(hardware), bandwidth_(hardware.memory_bandwidth_bytes_per_s) {
  constexpr double kUnfitted = 0.2;
  kernels_.fill({.latency_us = 1e6 * hardware.elementwise_latency_s,
                 .bandwidth_fraction = hardware.elementwise_bandwidth_fraction,
                 .spread = kUnfitted});
  for (const MemoryBoundFit& fit : profile.kernels) {
    kernels_[static_cast<std::size_t>(fit.kernel)] = fit;
    measured_[static_cast<std::size_t>(fit.kernel)] = true;
  }
}

bool MemoryBoundModel::Measured(MemoryBoundKernel kernel) const {
  return measured_[static_cast<std::size_t>(kernel)];
}

TimeEstimate MemoryBoundModel::operator()(MemoryBoundKernel kernel, double bytes) const {
  if (bytes <= 0) return {};
  const MemoryBoundFit& fit = kernels_[static_cast<std::size_t>(kernel)];
  const double seconds = 1e-6 * fit.latency_us + bytes / (fit.bandwidth_fraction * bandwidth_);
  return AtLeast({seconds, fit.spread, fit.spread}, limits_.Moving(bytes));
}

}  // namespace twin::sim
