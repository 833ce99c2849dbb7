// Fits the small, memory-bound kernels between matrix products.
#pragma once

#include <span>

#include "core/hardware_spec.h"
#include "sim/devices/operations/memory_bound_profile.h"

namespace twin::run {

struct MemoryBoundRow {
  double bytes = 0;
  double microseconds = 0;
};

// Latency and share of the bandwidth with the least mean absolute logarithm; the spread is that of
// the 90th percentile. REQUIRES: rows; bytes and microseconds > 0.
sim::MemoryBoundFit FitMemoryBound(const HardwareSpec& hardware, sim::MemoryBoundKernel kernel,
                                   std::span<const MemoryBoundRow> rows);

}  // namespace twin::run
