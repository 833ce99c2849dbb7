// How long communication between the ranks of a model takes.
#pragma once

#include <cstdint>

#include "core/hardware_spec.h"
#include "sim/cost/operations/estimate.h"

namespace twin::sim {

enum class Collective : std::uint8_t { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kSend };

class CollectiveModel {
 public:
  explicit CollectiveModel(const HardwareSpec& hardware);

  // `bytes` is the payload of one rank. REQUIRES: ranks >= 2, bytes > 0.
  [[nodiscard]] Estimate operator()(Collective kind, std::int32_t ranks, double bytes) const;

 private:
  HardwareSpec hardware_;
};

}  // namespace twin::sim
