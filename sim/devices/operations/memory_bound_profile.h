// Measurements of a device's small, memory-bound kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace twin::sim {

// Kernels between the products of a layer, and the ends of a step.
enum class MemoryBoundKernel : std::uint8_t {
  kEmbedding,    // rows of the table, per token
  kNorm,         // residual addition and RMS norm, one pass
  kHeadNorm,     // norms of queries and keys, per head
  kRotary,       // rotary positions of queries and keys
  kActivation,   // SwiGLU: two inputs, one output
  kResidualAdd,  // an addition that no norm includes
  kSampling,     // logits to tokens
};

inline constexpr int kMemoryBoundKernels = 7;

// Time of one kernel: `latency_us` and the bytes at a fraction of the memory's bandwidth. The
// fraction exceeds 1 where the bytes come from L2.
struct MemoryBoundFit {
  MemoryBoundKernel kernel{};
  double latency_us = 0;
  double bandwidth_fraction = 0;
  double spread = 0;  // standard deviation of the logarithm

  bool operator==(const MemoryBoundFit&) const = default;
};

// Kernels that are not listed take the data sheet's elementwise latency and fraction.
struct MemoryBoundProfile {
  std::vector<MemoryBoundFit> kernels;

  bool operator==(const MemoryBoundProfile&) const = default;
};

}  // namespace twin::sim
