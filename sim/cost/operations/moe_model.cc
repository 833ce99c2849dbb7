#include "sim/cost/operations/moe_model.h"

#include <algorithm>
#include <cmath>

namespace twin::sim {

MoeModel::MoeModel(const HardwareSpec& hardware, const MoeShape& shape)
    : hardware_(hardware), shape_(shape) {}

Estimate MoeModel::operator()(std::int64_t tokens) const {
  const double experts = shape_.experts;
  const double per_expert = 3.0 * shape_.hidden * shape_.intermediate;
  const double touched =
      experts * (1 - std::pow(1 - shape_.experts_per_token / experts, static_cast<double>(tokens)));
  const double memory =
      2 * touched * per_expert /
      (hardware_.memory_bandwidth_bytes_per_s * hardware_.gemm_bandwidth_fraction);
  const double compute = 2 * static_cast<double>(tokens) * shape_.experts_per_token * per_expert /
                         (hardware_.peak_bf16_flops * hardware_.gemm_flops_fraction);
  return {std::max(memory, compute) + 2 * hardware_.gemm_latency_s, 0.3};
}

}  // namespace twin::sim
