// The device that computes a model, and the number formats that it supports.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/dtype.h"
#include "proto/experiment_config.h"

namespace twin::lab {

using ModelDevice = RealWorldConfig::Device;

// "cpu" or "cuda".
std::string_view Name(ModelDevice device);

// Formats of weights that a device can compute with, the default first.
std::span<const DType> WeightFormats(ModelDevice device);
// Formats of a KV cache that can be used with such weights, the default first.
std::span<const DType> KvFormats(ModelDevice device, DType weights);
// The names, separated by commas: "fp32, bf16".
std::string NamesOf(std::span<const DType> formats);

// Throws InputError (usage) naming `where` unless the format is one of them.
void RequireFormat(const std::string& where, DType format, std::span<const DType> formats,
                   ModelDevice device);

// Throws InputError in one line unless models can be computed on the device: usage, naming `where`
// and that `other` is allowed, where this build never can; data where this machine lacks it.
void RequireDevice(const std::string& where, ModelDevice device, const std::string& other);

// Bytes that a rank's part of a model may take on the device at most: of the machine's memory what
// is available (available_memory.h), of CUDA devices all that the smallest one has. REQUIRES: a
// device that there is.
std::int64_t MemoryOf(ModelDevice device);

// The CUDA device of the rank that is the `local_rank`-th of its machine. REQUIRES: there is one.
std::int32_t CudaDeviceOf(std::int32_t local_rank);

}  // namespace twin::lab
