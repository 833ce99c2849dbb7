// How long the experts of a mixture take: both products of all experts of one rank, fused.
#pragma once

#include <cstdint>

#include "core/hardware_spec.h"
#include "sim/cost/operations/estimate.h"
#include "sim/cost/operations/gemm_model.h"

namespace twin::sim {

// Sizes of one rank: `experts` that it holds, of `intermediate` columns each.
struct MoeShape {
  std::int32_t hidden = 0;
  std::int32_t intermediate = 0;
  std::int32_t experts = 0;
  std::int32_t experts_per_token = 0;
  GemmFormat format = GemmFormat::kBf16;
};

class MoeModel {
 public:
  MoeModel(const HardwareSpec& hardware, const MoeShape& shape);

  // REQUIRES: tokens >= 1.
  [[nodiscard]] Estimate operator()(std::int64_t tokens) const;

 private:
  HardwareSpec hardware_;
  MoeShape shape_;
};

}  // namespace twin::sim
