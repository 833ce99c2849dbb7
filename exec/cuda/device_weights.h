// The weights of a model, or of one rank's share, in the memory of a device.
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
#include "kernels/thread_pool.h"

namespace twin::exec::cuda {

// y = W x + b. W as stored, [outputs, inputs], rows 16-byte aligned; b in fp32. W of kFp8 is as
// QuantizeRows makes it of the weights in bf16; both its sizes are padded by zeros to multiples of
// kFp8Sizes.
struct DeviceLinear {
  DeviceBuffer storage;
  kernels::cuda::DeviceMatrix matrix;
  DeviceBuffer scale_storage;  // of kFp8
  DeviceBuffer bias_storage;

  [[nodiscard]] bool empty() const { return matrix.rows == 0; }
  // With its padding. REQUIRES: kFp8.
  [[nodiscard]] kernels::cuda::ScaledMatrix padded() const;
  // Of weights and their scales.
  [[nodiscard]] std::int64_t bytes() const { return storage.bytes() + scale_storage.bytes(); }
  // Null where there is none.
  [[nodiscard]] const float* bias() const { return bias_storage.As<float>(); }
};

// In fp32.
struct DeviceNormWeights {
  DeviceBuffer gain_storage;
  DeviceBuffer bias_storage;

  [[nodiscard]] bool empty() const { return gain_storage.data() == nullptr; }
  [[nodiscard]] const float* gain() const { return gain_storage.As<float>(); }
  [[nodiscard]] const float* bias() const { return bias_storage.As<float>(); }
};

using DeviceLayer = LayerParts<DeviceLinear, DeviceNormWeights>;
using DeviceWeights = ModelParts<DeviceLinear, DeviceNormWeights>;

// Elements from one row of a matrix with so many columns to the next: rows are 16-byte aligned.
constexpr std::int64_t AlignedStride(std::int64_t columns, DType dtype) {
  const std::int64_t step = 16 / ByteSize(dtype);
  return (columns + step - 1) / step * step;
}

// Of activations, the KV cache, and the matrices beside the layers (embedding, positions, head and
// the projections next to them), where the weights of the layers are of `weights`.
constexpr DType ActivationFormat(DType weights) {
  return weights == DType::kFp8 ? DType::kBf16 : weights;
}

struct LoadedDeviceWeights {
  DeviceWeights weights;
  std::vector<std::string> warnings;  // as LoadedWeights
};

// As LoadWeights, with the format kBf16, kFp16, or kFp8 for the matrices of layers. The pool
// converts, two pinned buffers of 64 MiB carry; for kFp8 the device holds the largest matrix of a
// layer in bf16 meanwhile. Throws InputError (data), DeviceError.
LoadedDeviceWeights LoadDeviceWeights(const std::filesystem::path& directory,
                                      const ModelConfig& model, DType format,
                                      const GridPlace& place, StreamView stream,
                                      kernels::ThreadPool& pool);

// As MakeDummyWeights: the same numbers, but for rounding, made on the device.
DeviceWeights MakeDummyDeviceWeights(const ModelConfig& model, DType format, std::uint64_t seed,
                                     const GridPlace& place, StreamView stream);

}  // namespace twin::exec::cuda
