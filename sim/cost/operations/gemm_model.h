// How long a matrix product takes on a device.
#pragma once

#include <cstdint>

#include "core/hardware_spec.h"
#include "sim/cost/operations/estimate.h"
#include "sim/cost/operations/gemm_profile.h"
#include "sim/cost/operations/kernel_library.h"

namespace twin::sim {

// Format of the operands. Times of the fp8 formats include the quantization of the activations.
enum class GemmFormat : std::uint8_t { kBf16, kFp8, kFp8Block, kInt8, kInt4 };

// Y[m, n] = X[m, k] W[k, n].
struct GemmShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  GemmFormat format = GemmFormat::kBf16;
};

class GemmModel {
 public:
  explicit GemmModel(const HardwareSpec& hardware, const GemmProfile& profile = {},
                     KernelLibrary library = KernelLibrary::kVllm);

  // One product on a rested device with cold weights. REQUIRES: m, n, k >= 1.
  [[nodiscard]] Estimate operator()(const GemmShape& shape) const;

 private:
  HardwareSpec hardware_;
  KernelLibrary library_;
};

}  // namespace twin::sim
