#include "sim/devices/operations/operation_form.h"

#include <algorithm>
#include <cmath>

#include "sim/devices/operations/gemm_closed_form.h"

namespace twin::sim {
namespace {

constexpr double kUnknownMultiprocessors = 100;

}  // namespace

OperationCoefficients OperationCoefficientsOf(const HardwareSpec& hardware) {
  OperationCoefficients c;
  c.latency_s = hardware.attention_latency_s;
  c.flops_fraction = hardware.attention_flops_fraction;
  c.bandwidth_fraction = hardware.attention_bandwidth_fraction;
  c.chain_s = 0;
  c.block_s = 0;
  return c;
}

OperationForm::OperationForm(const HardwareSpec& hardware,
                             const OperationCoefficients& coefficients)
    : c_(coefficients),
      bandwidth_(hardware.memory_bandwidth_bytes_per_s * coefficients.bandwidth_fraction),
      sms_(hardware.sm_count > 0 ? hardware.sm_count : kUnknownMultiprocessors) {
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    rates_[i] = PeakFlops(hardware, static_cast<GemmFormat>(i)) * c_.flops_fraction;
  }
}

double OperationForm::Seconds(const OperationWork& work) const {
  const double compute =
      work.flops / Rate(work.format) + work.other_flops / Rate(work.other_format);
  const double memory = work.bytes / bandwidth_;
  const double longest = std::max(compute, memory);
  double both = 0;
  if (longest > 0) {
    both = longest * std::pow(std::pow(compute / longest, c_.overlap) +
                                  std::pow(memory / longest, c_.overlap),
                              1 / c_.overlap);
  }
  return c_.latency_s + c_.chain_s * work.chain + c_.block_s * work.blocks / sms_ + both;
}

}  // namespace twin::sim
