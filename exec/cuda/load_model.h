// Models on CUDA devices, for callers that know nothing of CUDA. Every build has these functions;
// one without CUDA refuses.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "exec/device_model.h"
#include "exec/model/model_config.h"
#include "exec/rank_links.h"
#include "kernels/thread_pool.h"

namespace twin::exec {

// Sizes of the largest step; a larger one works too, but takes memory then.
struct StepSizes {
  std::int64_t tokens = 0;
  std::int64_t sequences = 0;
};

struct CudaModelOptions {
  ModelConfig config;
  std::filesystem::path weights = {};  // a model directory; empty: dummy weights
  std::uint64_t seed = 0;              // of those
  // Of weights and activations: kBf16 or kFp16; or kFp8, of the weights of layers alone, beside
  // bf16: activations are quantized for each product then.
  DType format = DType::kBf16;
  std::int32_t positions = 0;
  RankLinks links = {};
  std::int32_t device = 0;  // as CUDA counts them
  StepSizes largest_step = {2048, 256};
  bool graphs = true;  // decodes are replayed from captured graphs
  bool tunes = true;   // matrix products are measured where the cache does not know the best way
  // Where the chosen algorithms of matrix products are kept; empty: in memory alone.
  std::filesystem::path algorithm_cache = {};
  bool checks_finite = false;  // logits that are not finite end the step with DeviceError
};

struct LoadedCudaModel {
  std::unique_ptr<DeviceModel> model;
  std::vector<std::string> warnings;  // a line each: as LoadedWeights, and what is slower here
};

// Throws InputError (usage) where there is no such device, or none that this build has code for, or
// where it or cuBLASLt does not multiply matrices of the format;
// InputError (data) as LoadWeights; kernels::cuda::DeviceError, of memory too. The pool is used
// while loading only.
LoadedCudaModel LoadCudaModel(const CudaModelOptions& options, kernels::ThreadPool& pool);

// What of `utilization` of the device's memory is left for the KV cache: measured as serving
// systems do, behind a step of the largest size. REQUIRES: a model from LoadCudaModel.
std::int64_t MeasureKvBytes(DeviceModel& model, double utilization);

// One line on the device and the libraries that the model computes with.
std::string DescribeDevice(const DeviceModel& model);

// Where the algorithm cache usually lies: ${XDG_CACHE_HOME:-~/.cache}/twinserve; empty where the
// environment names neither.
std::filesystem::path DefaultAlgorithmCache();

}  // namespace twin::exec
