// Options of a loaded model, from configurations and command lines to the device.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace twin {

// Implementations of attention on CUDA devices. kGeneric supports every shape; the others are
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

// How a model is computed, on all its ranks. All of it is for CUDA devices.
struct ModelOptions {
  // Products of fp8 weights are summed in the precision of the tensor cores, which is faster and
  // less accurate. Only for fp8 weights, on a device of compute capability 9.0.
  bool fp8_fast_accumulation = false;
  // The kernel of attention that is asked for (kernels::cuda::AttentionWith); none = the preferred
  // ones of the build and the device.
  std::optional<AttentionKernel> attention_kernel = {};

  bool operator==(const ModelOptions&) const = default;
};

}  // namespace twin
