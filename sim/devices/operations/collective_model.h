// How long communication between the ranks of a model takes.
//
// With measurements: their curve over the payload, linear between logarithms, at the last rate
// beyond the largest. Numbers of ranks that were not measured lie between their neighbors, or take
// as much more or less as the closed form says. Without measurements:
//
//   links at the rate of the host's bus   a ring: launch + passes ((ranks - 1) latency + share
//   bytes
//                                         / rate), share = (ranks - 1) / ranks
//   peer memory (NVLink), all-reduce      the fastest of one shot, in which each rank reads all
//                                         ranks, of two shots, which reduce and gather shares, and
//                                         of a ring; vLLM's kernels have coefficients of their own
//   peer memory, what else NCCL runs      the faster of a tree for few bytes and a ring for many
#pragma once

#include <cstdint>

#include "core/hardware_spec.h"
#include "sim/devices/operations/collective_profile.h"
#include "sim/devices/operations/estimate.h"
#include "sim/devices/operations/kernel_library.h"

namespace twin::sim {

class CollectiveModel {
 public:
  explicit CollectiveModel(const HardwareSpec& hardware,
                           KernelLibrary library = KernelLibrary::kVllm,
                           const CollectiveProfile& profile = {});

  // `bytes` is the payload of one rank: what it contributes to an all-reduce, receives in all from
  // an all-gather, and so on, as NCCL's benchmarks count. REQUIRES: ranks >= 2, bytes > 0.
  [[nodiscard]] TimeEstimate operator()(Collective kind, std::int32_t ranks, double bytes) const;

 private:
  [[nodiscard]] double ClosedForm(Collective kind, double ranks, double bytes) const;

  HardwareSpec hardware_;
  CollectiveImplementation implementation_;
  CollectiveProfile profile_;
};

}  // namespace twin::sim
