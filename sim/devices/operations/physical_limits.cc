#include "sim/devices/operations/physical_limits.h"

#include <algorithm>
#include <cmath>

namespace twin::sim {

PhysicalLimits::PhysicalLimits(const HardwareSpec& hardware)
    : bandwidth_(hardware.memory_bandwidth_bytes_per_s),
      l2_bytes_(static_cast<double>(hardware.l2_bytes)),
      peak_fp32_(hardware.peak_fp32_flops > 0 ? hardware.peak_fp32_flops
                                              : hardware.peak_bf16_flops),
      peak_bf16_(std::max(hardware.peak_bf16_flops, hardware.peak_fp32_flops)),
      peak_fp8_(std::max(peak_bf16_, hardware.peak_fp8_flops)),
      peak_fp4_(std::max(peak_bf16_, hardware.peak_fp4_flops)),
      peak_int8_(std::max(peak_bf16_, hardware.peak_int8_flops)) {}

double PhysicalLimits::Peak(GemmFormat format) const {
  switch (format) {
    case GemmFormat::kBf16:
    case GemmFormat::kInt4:
    case GemmFormat::kMxfp4:
      break;
    case GemmFormat::kFp8:
    case GemmFormat::kFp8Block:
    case GemmFormat::kMxfp4Fp8:
      return peak_fp8_;
    case GemmFormat::kInt8:
      return peak_int8_;
    case GemmFormat::kFp4:
      return peak_fp4_;
    case GemmFormat::kFp32:
      return peak_fp32_;
  }
  return peak_bf16_;
}

double PhysicalLimits::Seconds(double memory_bytes, double cacheable_bytes, double flops,
                               double peak) const {
  const double bytes = memory_bytes + std::max(0.0, cacheable_bytes - l2_bytes_);
  return std::max(bytes / bandwidth_, flops / (kBoostMax * peak));
}

double PhysicalLimits::Work(double bytes, double flops, GemmFormat format) const {
  return Seconds(0, bytes, flops, Peak(format));
}

double PhysicalLimits::Gemm(const GemmShape& shape, bool cold) const {
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  constexpr double kResultBytes = 2;
  const double weights = WeightBytes(shape);
  const double activations = ActivationBytes(shape) + kResultBytes * m * n;
  return Seconds(cold ? weights : 0, activations + (cold ? 0 : weights), 2 * m * n * k,
                 Peak(shape.format));
}

double PhysicalLimits::Attention(const AttentionWork& work, DType compute) const {
  if (work.requests <= 0) return 0;
  constexpr double kFlopsPerPair = 4;  // two products
  const double flops = kFlopsPerPair * VisiblePairs(work) * work.query_heads * work.head_dim;
  const double queries =
      2 * work.tokens * work.query_heads * work.head_dim * static_cast<double>(ByteSize(compute));
  const double keys = KeyBytes(work);
  return Seconds(work.cold ? keys : 0, queries + (work.cold ? 0 : keys), flops,
                 compute == DType::kFp8 ? peak_fp8_ : peak_bf16_);
}

TimeEstimate AtLeast(TimeEstimate estimate, double seconds) {
  if (estimate.seconds >= seconds) return estimate;
  const double raised = estimate.seconds > 0 ? std::log(seconds / estimate.seconds) : 0;
  return {seconds, std::hypot(estimate.log_sd, raised), std::hypot(estimate.lasting_sd, raised)};
}

}  // namespace twin::sim
