// The least time that a device can take for an operation: its data sheet multiplies no faster, and
// reads and writes memory no faster, whatever a table or a closed form says of sizes that nobody
// measured.
//
// Bytes that the last cache may still hold, or keep until another operation reads them, need no
// memory: up to its size they are not counted. Boards run at clocks above their data sheets, by up
// to kBoostMax; memory does not.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/hardware_spec.h"
#include "sim/devices/operations/attention_kernel.h"
#include "sim/devices/operations/estimate.h"
#include "sim/devices/operations/gemm_closed_form.h"

namespace twin::sim {

inline constexpr double kBoostMax = 1.1;

class PhysicalLimits {
 public:
  explicit PhysicalLimits(const HardwareSpec& hardware);

  // Seconds. `cold`: the weights are not in the cache.
  [[nodiscard]] double Gemm(const GemmShape& shape, bool cold = false) const;
  // Prompts and decodes; work.cold: none of the keys and values is in the cache. `compute`: of the
  // products.
  [[nodiscard]] double Attention(const AttentionWork& work, DType compute) const;
  // Bytes that may be in the cache, and products of one format.
  [[nodiscard]] double Work(double bytes, double flops, GemmFormat format) const;
  [[nodiscard]] double Moving(double bytes) const { return Seconds(0, bytes, 0, 1); }

 private:
  [[nodiscard]] double Peak(GemmFormat format) const;
  [[nodiscard]] double Seconds(double memory_bytes, double cacheable_bytes, double flops,
                               double peak) const;

  double bandwidth_;
  double l2_bytes_;
  double peak_fp32_;  // without TF32, as PyTorch multiplies unless asked otherwise
  double peak_bf16_;
  double peak_fp8_;
  double peak_fp4_;
  double peak_int8_;
};

// At least `seconds`. By as much as this changes the estimate, the model is wrong at the least: its
// deviations grow by that.
[[nodiscard]] TimeEstimate AtLeast(TimeEstimate estimate, double seconds);

}  // namespace twin::sim
