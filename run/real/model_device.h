// The device that computes a model, and the number formats that it supports.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "config/experiment_config.h"
#include "core/dtype.h"
#include "core/model_options.h"

namespace twin::run {

using ModelDevice = RealWorldConfig::Device;

// "cpu" or "cuda".
std::string_view Name(ModelDevice device);

// Formats of weights that a device can compute with, the default first.
std::span<const DType> WeightFormats(ModelDevice device);
// Formats of a KV cache that can be used with weights of format `weights`, the default first.
std::span<const DType> KvFormats(ModelDevice device, DType weights);
// The names, separated by commas: "fp32, bf16".
std::string NamesOf(std::span<const DType> formats);

// Throws InputError (usage) naming `where` unless `format` is one of `formats`.
void RequireFormat(const std::string& where, DType format, std::span<const DType> formats,
                   ModelDevice device);

// The names of a model's options in errors. The defaults are the names on a command line.
struct ModelOptionNames {
  std::string_view fp8_fast_accumulation = "--fp8-fast-accumulation";
  std::string_view attention_kernel = "--attention";
};

// Throws InputError (usage) naming an option that the device or weights of that format do not have.
void RequireModelOptions(const ModelOptions& options, DType weights, ModelDevice device,
                         const ModelOptionNames& names = {});

// Throws InputError unless models can be computed on the device: (usage) naming `where` and the
// allowed alternative `other` if this build does not support the device; (data) if this machine
// lacks one.
void RequireDevice(const std::string& where, ModelDevice device, const std::string& other);

// The most bytes that one rank's part of a model can take on the device: on a CPU the available
// memory of the machine (available_memory.h), on CUDA the whole memory of the smallest device.
// REQUIRES: the machine has such a device.
std::int64_t MemoryOf(ModelDevice device);

// The index of the CUDA device that the `local_rank`-th rank of a machine uses. REQUIRES: the
// machine has a CUDA device.
std::int32_t CudaDeviceOf(std::int32_t local_rank);

}  // namespace twin::run
