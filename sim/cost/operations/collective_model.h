// How long communication between the ranks of a model takes.
//
// With measurements: their curve over the payload, linear between logarithms, at the last rate
// beyond the largest. Numbers of ranks that were not measured lie between their neighbors, or take
// the passes of a ring more or less. Without measurements, the fastest of three protocols:
//
//   one shot   launch + latency + (ranks - 1) bytes / rate       each rank reads all others
//   (all-reduce) two shots  launch + 2 (latency + share bytes / rate)         reduce-scatter and
//   all-gather through
//                                                                peer memory; share = (ranks - 1) /
//                                                                ranks
//   ring       launch + passes ((ranks - 1) latency + share bytes / rate)
//
// Peer memory needs NVLink: links at the rate of the host's bus only have the ring.
#pragma once

#include <cstdint>

#include "core/hardware_spec.h"
#include "sim/cost/operations/collective_profile.h"
#include "sim/cost/operations/estimate.h"
#include "sim/cost/operations/kernel_library.h"

namespace twin::sim {

class CollectiveModel {
 public:
  explicit CollectiveModel(const HardwareSpec& hardware,
                           KernelLibrary library = KernelLibrary::kVllm,
                           const CollectiveProfile& profile = {});

  // `bytes` is the payload of one rank: what it contributes to an all-reduce, receives in all from
  // an all-gather, and so on, as NCCL's benchmarks count. REQUIRES: ranks >= 2, bytes > 0.
  [[nodiscard]] Estimate operator()(Collective kind, std::int32_t ranks, double bytes) const;

 private:
  [[nodiscard]] double ClosedForm(Collective kind, double ranks, double bytes) const;

  HardwareSpec hardware_;
  CollectiveImplementation implementation_;
  CollectiveProfile profile_;
};

}  // namespace twin::sim
