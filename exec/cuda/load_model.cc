#include "exec/cuda/load_model.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "core/input_error.h"
#include "exec/cuda/cuda_model.h"
#include "exec/cuda/device.h"
#include "exec/cuda/device_weights.h"
#include "exec/profile/synthetic_steps.h"
#include "kernels/cuda/routing.h"

namespace twin::exec {
namespace {

[[noreturn]] void RefuseFormat(const std::string& what, const std::string& allowed) {
  throw InputError(InputError::Kind::kUsage, "the weights' format", what + "; allowed: " + allowed);
}

void CheckFormat(DType format) {
  constexpr DType kFormats[] = {DType::kBf16, DType::kFp8, DType::kInt4};
  if (std::ranges::find(kFormats, format) != std::end(kFormats)) return;
  RefuseFormat(std::string(Name(format)) + ", which the CUDA executor does not compute with",
               "bf16, fp8, int4");
}

void CheckAccumulation(const CudaModelOptions& options) {
  if (!options.model_options.fp8_fast_accumulation || options.format == DType::kFp8) return;
  throw InputError(InputError::Kind::kUsage, "fp8_fast_accumulation",
                   "is for weights of fp8, and these are " + std::string(Name(options.format)) +
                       "; allowed: false");
}

void CheckMixture(const ModelConfig& config, DType format) {
  const MoeSpec& moe = config.shape.moe;
  if (moe.experts == 0) return;
  if (format == DType::kFp8) {
    RefuseFormat(std::string(Name(format)) +
                     ", in which the CUDA executor does not compute mixtures of experts",
                 "bf16, int4");
  }
  if (moe.experts_per_token <= kernels::cuda::kExpertsPerRowMax) return;
  throw InputError(InputError::Kind::kUsage,
                   config.shape.name.empty() ? "model" : config.shape.name,
                   "has " + std::to_string(moe.experts_per_token) +
                       " experts per token; allowed on a CUDA device: up to " +
                       std::to_string(kernels::cuda::kExpertsPerRowMax));
}

// Checks the support for a format before anything is loaded.
void CheckFormatOn(const CudaModelOptions& options, cuda::Device& device) {
  if (options.format != DType::kFp8) return;
  if (!device.multiplies_fp8()) {
    if (!options.model_options.fp8_fast_accumulation) return;
    throw InputError(InputError::Kind::kUsage, "fp8_fast_accumulation",
                     "is for devices of compute capability 9.0, which multiply fp8 matrices; this "
                     "is " +
                         device.description() + "; allowed: false");
  }
  try {
    constexpr std::int64_t kSize = 1024;
    device.gemm().Prepare({.tokens = kSize,
                           .outputs = kSize,
                           .inputs = kSize,
                           .input_dtype = DType::kFp8,
                           .output_dtype = cuda::kActivationFormat,
                           .accumulation = cuda::AccumulationOf(options)});
  } catch (const kernels::cuda::DeviceError& error) {
    RefuseFormat("fp8, which this cuBLASLt does not multiply (" + std::string(error.what()) +
                     "); this is " + device.description(),
                 "bf16, int4");
  }
}

void CheckLayers(const ModelConfig& config) {
  if (HasPlainLayers(config.shape)) return;
  throw InputError(InputError::Kind::kUsage, "device",
                   "is cuda, which computes models of equal layers with plain attention alone, "
                   "unlike " +
                       config.shape.name + "; allowed: cpu");
}

void CheckAttention(const CudaModelOptions& options, const cuda::CudaModel& model) {
  const std::optional<AttentionKernel> kernel = options.model_options.attention_kernel;
  if (!kernel) return;
  const std::string why = kernels::cuda::WhyNotAttention(
      *kernel, model.AttentionShapeOf(cuda::CudaModel::kUsualBlockSize),
      model.device().compute_capability());
  if (why.empty()) return;
  throw InputError(
      InputError::Kind::kUsage, "attention",
      "\"" + std::string(Name(*kernel)) + "\" cannot be used: " + why + "; allowed: auto, generic");
}

}  // namespace

LoadedCudaModel LoadCudaModel(const CudaModelOptions& options, kernels::ThreadPool& pool) {
  CheckLayers(options.config);
  CheckFormat(options.format);
  CheckAccumulation(options);
  CheckMixture(options.config, options.format);
  auto device = std::make_unique<cuda::Device>(options.device, options.algorithm_cache);
  CheckFormatOn(options, *device);
  cuda::LoadedDeviceWeights loaded;
  if (options.weights.empty()) {
    loaded.weights = cuda::MakeDummyDeviceWeights(options.config, options.format, options.seed,
                                                  options.links.place, device->compute(), pool);
  } else {
    loaded = cuda::LoadDeviceWeights(options.weights, options.config, options.format,
                                     options.links.place, device->compute(), pool);
  }
  LoadedCudaModel result;
  result.warnings = std::move(loaded.warnings);
  auto model =
      std::make_unique<cuda::CudaModel>(options, std::move(device), std::move(loaded.weights));
  CheckAttention(options, *model);
  // Tunes before a cache takes the memory that the operands need.
  if (options.tunes) {
    for (std::string& failure : model->TuneProducts()) {
      result.warnings.push_back(std::move(failure));
    }
  }
  for (const std::string& warning : model->SlowParts()) result.warnings.push_back(warning);
  result.model = std::move(model);
  return result;
}

std::int64_t MeasureKvBytes(DeviceModel& model, double utilization) {
  auto& on_device = dynamic_cast<cuda::CudaModel&>(model);
  const StepSizes& largest = on_device.options().largest_step;
  SyntheticSteps steps(model, {.kv_dtype = cuda::kActivationFormat,
                               .tokens = largest.tokens,
                               .items = static_cast<std::int32_t>(largest.sequences)});
  const auto longest =
      static_cast<std::int32_t>(std::clamp<std::int64_t>(largest.tokens, 1, on_device.positions()));
  std::vector<StepItem> items;
  for (std::int64_t left = largest.tokens;
       left > 0 && static_cast<std::int64_t>(items.size()) < largest.sequences; left -= longest) {
    const auto tokens = static_cast<std::int32_t>(std::min<std::int64_t>(left, longest));
    items.push_back(ChunkItem(0, tokens, true));
  }
  steps.Run(items);
  const cuda::DeviceMemory memory = cuda::CurrentDeviceMemory();
  const std::int64_t cache = steps.cache().shape.Bytes();
  const auto allowed = static_cast<std::int64_t>(utilization * static_cast<double>(memory.total));
  return allowed - (memory.total - memory.free - cache);
}

std::string DescribeDevice(const DeviceModel& model) {
  const auto& on_device = dynamic_cast<const cuda::CudaModel&>(model);
  const bool fast = on_device.options().model_options.fp8_fast_accumulation;
  return on_device.device().description() + (fast ? ", fp8 with fast accumulation" : "");
}

std::filesystem::path DefaultAlgorithmCache() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  std::filesystem::path folder;
  if (cache != nullptr && *cache != '\0') {
    folder = cache;
  } else if (home != nullptr && *home != '\0') {
    folder = std::filesystem::path(home) / ".cache";
  } else {
    return {};
  }
  return folder / "twinserve" / "gemm_algorithms.tsv";
}

}  // namespace twin::exec
