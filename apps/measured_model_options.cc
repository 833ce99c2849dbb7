#include "apps/measured_model_options.h"

#include "apps/enum_option.h"

namespace twin::apps {

void AddAccumulationOption(CLI::App& command, bool& fp8_fast_accumulation) {
  command.add_flag("--fp8-fast-accumulation", fp8_fast_accumulation,
                   "Sum products of fp8 weights in the precision of the tensor cores: faster, less "
                   "accurate. Needs a GPU of compute capability 9.0");
}

void AddMeasuredModelOptions(CLI::App& command, lab::MeasuredModelOptions& options) {
  command.add_option("--model", options.model, "Directory of config.json and safetensors")
      ->required();
  command.add_flag("--dummy-weights", options.dummy_weights,
                   "Use random weights; only config.json is read");
  AddEnumOption<lab::ModelDevice>(
      command, "--device", options.device,
      {{"cpu", lab::ModelDevice::kCpu}, {"cuda", lab::ModelDevice::kCuda}},
      "Device to compute on (default: cpu)");
  command.add_option("--threads", options.threads, "Threads (default: all cores)")
      ->check(CLI::Range(1, 1024));
  AddAccumulationOption(command, options.fp8_fast_accumulation);
}

}  // namespace twin::apps
