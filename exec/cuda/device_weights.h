// Weights of a model, or of one rank's share of it, in device memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "exec/cuda/device_memory.h"
#include "exec/cuda/stream.h"
#include "exec/model/model_config.h"
#include "exec/model/model_parts.h"
#include "exec/model/model_share.h"
#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/int4_rows.h"
#include "kernels/thread_pool.h"

namespace twin::exec::cuda {

// A linear layer y = W x + b. W is [outputs, inputs], as in the checkpoint, with rows aligned to 16
// bytes; b is fp32. An fp8 W is the result of QuantizeRows for the weights in bf16; zeros pad both
// of its dimensions to multiples of kFp8Sizes. An int4 W has the numbers that the CPU multiplies
// by.
struct DeviceLinear {
  DeviceBuffer storage;
  // For kInt4 this is only the shape; int4() has the weights.
  kernels::cuda::DeviceMatrix matrix;
  DeviceBuffer scale_storage;  // for kFp8 and kInt4 only
  DeviceBuffer zero_storage;   // for kInt4 only
  std::int64_t group = 0;  // for kInt4 only: number of columns that share a scale and a zero point
  DeviceBuffer bias_storage;

  [[nodiscard]] bool empty() const { return matrix.rows == 0; }
  // The matrix without and with its padding. REQUIRES: the format is kFp8.
  [[nodiscard]] kernels::cuda::ScaledMatrix scaled() const;
  [[nodiscard]] kernels::cuda::ScaledMatrix padded() const;
  // REQUIRES: the format is kInt4.
  [[nodiscard]] kernels::cuda::Int4Matrix int4() const;
  // Size of weights, scales and zero points.
  [[nodiscard]] std::int64_t bytes() const {
    return storage.bytes() + scale_storage.bytes() + zero_storage.bytes();
  }
  // Null if there is no bias.
  [[nodiscard]] const float* bias() const { return bias_storage.As<float>(); }
};

// Weights of a norm, in fp32.
struct DeviceNormWeights {
  DeviceBuffer gain_storage;
  DeviceBuffer bias_storage;

  [[nodiscard]] bool empty() const { return gain_storage.data() == nullptr; }
  [[nodiscard]] const float* gain() const { return gain_storage.As<float>(); }
  [[nodiscard]] const float* bias() const { return bias_storage.As<float>(); }
};

// A mixture has one entry in `experts`: the matrices of all experts, one below the other.
using DeviceLayer = LayerParts<DeviceLinear, DeviceNormWeights>;
using DeviceWeights = ModelParts<DeviceLinear, DeviceNormWeights>;

// Row stride, in elements, of a matrix whose rows are aligned to 16 bytes.
constexpr std::int64_t AlignedStride(std::int64_t columns, DType dtype) {
  const std::int64_t step = 16 / ByteSize(dtype);
  return (columns + step - 1) / step * step;
}

// Format of the activations, the KV cache, and the matrices outside the layers (embedding,
// positions, head and the projections next to them).
constexpr DType kActivationFormat = DType::kBf16;

struct LoadedDeviceWeights {
  DeviceWeights weights;
  // The warnings of LoadedWeights, one line if matrices of fp16 were rounded to bf16, and one line
  // for each reason why matrices of 4 bits had to be widened.
  std::vector<std::string> warnings;
};

// Loads weights as LoadWeights() does. `format` is kBf16, or kFp8 or kInt4, which apply to the
// matrices of the layers only. 4-bit matrices of experts, and 4-bit matrices whose inputs are in an
// order of their own, are widened to 16 bits without a change of the numbers. Converts on the pool
// and copies through two pinned buffers of 64 MiB. For kFp8, the largest matrix of a layer needs
// additional device memory in bf16 during loading. Throws InputError (data), DeviceError.
LoadedDeviceWeights LoadDeviceWeights(const std::filesystem::path& directory,
                                      const ModelConfig& model, DType format,
                                      const GridPlace& place, StreamView stream,
                                      kernels::ThreadPool& pool);

// Generates the weights of MakeDummyWeights() on the device: the numbers are the same except for
// rounding. Weights of kInt4 are generated and rounded on the pool, to the same numbers.
DeviceWeights MakeDummyDeviceWeights(const ModelConfig& model, DType format, std::uint64_t seed,
                                     const GridPlace& place, StreamView stream,
                                     kernels::ThreadPool& pool);

}  // namespace twin::exec::cuda
