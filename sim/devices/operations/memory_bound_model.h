// How long the small kernels between matrix products take: norms, rotary positions, activation,
// residual additions, embedding, sampling. They move bytes and compute little:
//
//   t = latency + bytes / (fraction * bandwidth)
#pragma once

#include <array>

#include "core/hardware_spec.h"
#include "sim/devices/operations/estimate.h"
#include "sim/devices/operations/memory_bound_profile.h"
#include "sim/devices/operations/physical_limits.h"

namespace twin::sim {

// Sizes of one rank; activations have 2 bytes per number.
struct MemoryBoundShape {
  double hidden = 0;
  double query_heads = 0;
  double kv_heads = 0;
  double head_dim = 0;
  double intermediate = 0;  // of the MLP
  double vocabulary = 0;
  double kv_bytes = 2;  // per number of the cache
};

// Bytes that a kernel reads and writes for `rows` tokens (kSampling: rows of logits).
[[nodiscard]] double MemoryBoundBytes(MemoryBoundKernel kernel, const MemoryBoundShape& shape,
                                      double rows);

class MemoryBoundModel {
 public:
  explicit MemoryBoundModel(const HardwareSpec& hardware, const MemoryBoundProfile& profile = {});

  // Whether the profile has the kernel; if not, it is computed from the data sheet.
  [[nodiscard]] bool Measured(MemoryBoundKernel kernel) const;

  // 0 seconds without bytes.
  [[nodiscard]] TimeEstimate operator()(MemoryBoundKernel kernel, double bytes) const;
  [[nodiscard]] TimeEstimate operator()(MemoryBoundKernel kernel, const MemoryBoundShape& shape,
                                        double rows) const {
    return (*this)(kernel, MemoryBoundBytes(kernel, shape, rows));
  }

 private:
  PhysicalLimits limits_;
  double bandwidth_ = 0;
  std::array<bool, kMemoryBoundKernels> measured_{};
  std::array<MemoryBoundFit, kMemoryBoundKernels> kernels_;
};

}  // namespace twin::sim
