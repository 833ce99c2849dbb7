// Loads models on CUDA devices; includes no CUDA header. The functions exist in every build.
// Without CUDA, LoadCudaModel throws.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/model_options.h"
#include "exec/device_model.h"
#include "exec/model/model_config.h"
#include "exec/rank_groups.h"
#include "kernels/cuda/attention.h"
#include "kernels/thread_pool.h"

namespace twin::exec {

// Sizes of the largest expected step. Larger steps work too, but allocate memory when they run.
struct StepSizes {
  std::int64_t tokens = 0;
  std::int64_t sequences = 0;
};

struct CudaModelOptions {
  ModelConfig config;
  std::filesystem::path weights = {};  // a model directory; empty = dummy weights
  std::uint64_t seed = 0;              // of the dummy weights
  // kBf16: format of weights and activations. kFp8 or kInt4: format of the layers' weights only;
  // everything else is bf16. With kFp8, activations are quantized before each product on a
  // device of compute capability 9.0; on 8.x, the weights are widened.
  DType format = DType::kBf16;
  ModelOptions model_options = {};
  std::int32_t positions = 0;
  RankLinks links = {};
  std::int32_t device = 0;  // CUDA device ordinal
  StepSizes largest_step = {2048, 256};
  bool graphs = true;  // replays decode steps from captured graphs
  // An executor launches all kernels before its first step if the weights have at least so many
  // bytes, because the first launch of a kernel loads it. For smaller models this takes longer than
  // it saves.
  std::int64_t warmed_bytes_min = std::int64_t{64} << 20;
  bool tunes = true;  // autotunes matrix products that are not in the algorithm cache
  // Products of prefills are autotuned if they have at least so many operations: smaller ones are
  // bound by their launches.
  double tuned_flops_min = 1e9;
  // File that keeps the chosen algorithms of matrix products and the times of attention; empty = in
  // memory only.
  std::filesystem::path algorithm_cache = {};
  // The attention kernels in detail, for tests; they override model_options.
  std::optional<kernels::cuda::AttentionChoice> attention = {};
  // Captures and tunes decode steps only for these numbers of requests, each in its bucket; empty =
  // all up to largest_step.sequences.
  std::vector<std::int64_t> decode_batches = {};
  bool checks_finite = false;  // a step with non-finite logits throws DeviceError
};

struct LoadedCudaModel {
  std::unique_ptr<DeviceModel> model;
  // One line each: the warnings of LoadedWeights, and the parts that run slower on this device.
  std::vector<std::string> warnings;
};

// Loads a model. The pool is used only during loading. Throws InputError (usage) if the device does
// not exist, if this build has no code for it, if cuBLASLt does not support products of the format,
// if fp8_fast_accumulation has another format or device, or if attention_kernel does not support
// the model on this device; InputError (data) as LoadWeights; kernels::cuda::DeviceError, also if
// memory runs out.
LoadedCudaModel LoadCudaModel(const CudaModelOptions& options, kernels::ThreadPool& pool);

// Bytes left for the KV cache if the process may use the fraction `utilization` of the device's
// memory. Measured as in serving systems, after a step of the largest size. REQUIRES: `model` is
// from LoadCudaModel.
std::int64_t MeasureKvBytes(DeviceModel& model, double utilization);

// One line on the device, the libraries that the model computes with, and a fast accumulation.
std::string DescribeDevice(const DeviceModel& model);

// Default location of the algorithm cache: ${XDG_CACHE_HOME:-~/.cache}/twinserve; empty if the
// environment defines neither.
std::filesystem::path DefaultAlgorithmCache();

}  // namespace twin::exec
