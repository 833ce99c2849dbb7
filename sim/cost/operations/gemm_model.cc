#include "sim/cost/operations/gemm_model.h"

#include <algorithm>

namespace twin::sim {

GemmModel::GemmModel(const HardwareSpec& hardware, const GemmProfile& /*profile*/,
                     KernelLibrary library)
    : hardware_(hardware), library_(library) {}

Estimate GemmModel::operator()(const GemmShape& shape) const {
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const double compute =
      2 * m * n * k / (hardware_.peak_bf16_flops * hardware_.gemm_flops_fraction);
  const double memory =
      2 * (m * k + n * k + m * n) /
      (hardware_.memory_bandwidth_bytes_per_s * hardware_.gemm_bandwidth_fraction);
  return {std::max(compute, memory) + hardware_.gemm_latency_s, 0.15};
}

}  // namespace twin::sim
