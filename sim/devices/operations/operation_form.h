// A closed form for operations that have none of their own: how long an amount of work takes on a
// device, from six coefficients.
//
//   t = latency + chain chain_s + blocks / SMs block_s + norm(flops / rate, bytes / rate)
//
// Work in a chain is done one after the other, such as the keys that the last tile of a causal
// prompt reads; blocks are thread blocks, each with a fixed time. `norm` is (a^p + b^p)^(1/p), the
// larger of two, rounded where they are close. Tables (operation_table.h) correct it.
#pragma once

#include <array>

#include "core/hardware_spec.h"
#include "sim/devices/operations/gemm_profile.h"

namespace twin::sim {

// Products of two formats, as the projections of a layer and its attention have.
struct OperationWork {
  double flops = 0;
  GemmFormat format = GemmFormat::kBf16;
  double other_flops = 0;
  GemmFormat other_format = GemmFormat::kBf16;
  double bytes = 0;
  double blocks = 0;
  double chain = 0;
};

struct OperationCoefficients {
  double latency_s = 8e-6;
  double chain_s = 0.3e-6;
  double block_s = 0.3e-6;
  double flops_fraction = 0.5;
  double bandwidth_fraction = 0.75;
  double overlap = 2;  // p

  static constexpr int kFields = 6;
  [[nodiscard]] std::array<double*, kFields> fields() {
    return {&latency_s, &chain_s, &block_s, &flops_fraction, &bandwidth_fraction, &overlap};
  }
  bool operator==(const OperationCoefficients&) const = default;
};

// Coefficients of a device that nobody measured: the fractions and the latency of its data sheet.
[[nodiscard]] OperationCoefficients OperationCoefficientsOf(const HardwareSpec& hardware);

// Peaks and rates of a device, looked up once. Thread-safe.
class OperationForm {
 public:
  OperationForm(const HardwareSpec& hardware, const OperationCoefficients& coefficients);

  [[nodiscard]] double Seconds(const OperationWork& work) const;

 private:
  [[nodiscard]] double Rate(GemmFormat format) const {
    return rates_[static_cast<std::size_t>(format)];
  }

  OperationCoefficients c_;
  std::array<double, 9> rates_{};  // by format
  double bandwidth_ = 0;
  double sms_ = 0;
};

}  // namespace twin::sim
