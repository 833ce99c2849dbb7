#include "apps/measured_model_options.h"

#include "apps/options.h"

namespace twin::apps {

void AddModelOptions(CommandParser command, ModelOptions& options) {
  command.AddFlag("--fp8-fast-accumulation", options.fp8_fast_accumulation,
                  "Sum products of fp8 weights in the precision of the tensor cores: faster, less "
                  "accurate. Needs a GPU of compute capability 9.0");
  using Kernel = AttentionKernel;
  command.AddEnumOption<std::optional<Kernel>>(
      "--attention", options.attention_kernel,
      {{"auto", std::nullopt},
       {"fa3", Kernel::kFa3},
       {"fa2", Kernel::kFa2},
       {"cuda_core", Kernel::kCudaCore},
       {"generic", Kernel::kGeneric}},
      "Attention on CUDA: auto (default), the fastest kernels; fa3, the same, refused without "
      "FlashAttention 3; fa2, without FlashAttention 3; cuda_core, decodes on CUDA cores; generic, "
      "twinserve's own kernel");
}

void AddMeasuredModelOptions(CommandParser command, run::MeasuredModelOptions& options) {
  command.AddOption("--model", options.model, "Directory of config.json and safetensors")
      .Required();
  command.AddFlag("--dummy-weights", options.dummy_weights,
                  "Use random weights; only config.json is read");
  command.AddEnumOption<run::ModelDevice>(
      "--device", options.device,
      {{"cpu", run::ModelDevice::kCpu}, {"cuda", run::ModelDevice::kCuda}},
      "Device to compute on (default: cpu)");
  command.AddOption("--threads", options.threads, "Threads (default: all cores)").InRange(1, 1024);
  AddModelOptions(command, options.model_options);
}

}  // namespace twin::apps
