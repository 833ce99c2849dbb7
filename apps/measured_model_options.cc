#include "apps/measured_model_options.h"

#include <map>
#include <string>

namespace twin::apps {

void AddMeasuredModelOptions(CLI::App& command, lab::MeasuredModelOptions& options) {
  const std::map<std::string, lab::ModelDevice> devices{{"cpu", lab::ModelDevice::kCpu},
                                                        {"cuda", lab::ModelDevice::kCuda}};
  command.add_option("--model", options.model, "Directory of config.json and safetensors")
      ->required();
  command.add_flag("--dummy-weights", options.dummy_weights,
                   "Random weights: config.json alone is enough");
  command.add_option("--device", options.device, "Where to compute")
      ->transform(CLI::CheckedTransformer(devices));
  command.add_option("--threads", options.threads, "Default: as many as the machine has")
      ->check(CLI::Range(1, 1024));
}

}  // namespace twin::apps
