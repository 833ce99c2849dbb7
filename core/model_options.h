// Options of a loaded model, from configurations and command lines to the device.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace twin {

// Implementations of attention on CUDA devices. kGeneric supports every shape; the other ones are
// FlashInfer kernels.
enum class AttentionKernel : std::uint8_t { kGeneric, kFa2, kFa3, kCudaCore };
constexpr std::string_view Name(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::kGeneric:
      return "generic";
    case AttentionKernel::kFa2:
      return "fa2";
    case AttentionKernel::kFa3:
      return "fa3";
    case AttentionKernel::kCudaCore:
      return "cuda_core";
  }
  return "";
}

// Options for computing a model on all its ranks; all are for CUDA devices.
struct ModelOptions {
  // Products of fp8 weights are summed in the precision of the tensor cores, which is faster and
  // less accurate. Only for fp8 weights, on a device of compute capability 9.0.
  bool fp8_fast_accumulation = false;
  // The kernel of attention to use (kernels::cuda::AttentionWith); none = the preferred kernels of
  // the build and the device.
  std::optional<AttentionKernel> attention_kernel = {};

  bool operator==(const ModelOptions&) const = default;
};

}  // namespace twin
