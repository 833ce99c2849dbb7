// Which member of a world's config holds which field of its message (field_binding.h).
#pragma once

#include <optional>

#include "config/field_binding.h"
#include "config/workload_binding.h"
#include "config/world_config.h"

namespace twin {

template <class Archive>
void Bind(Archive& fields, SimulatedWorldConfig& config) {
  fields.OptionalSeconds("client_timeout_s", config.client_timeout);
}

template <class Archive>
void Bind(Archive& fields, TokenSamplingConfig& config) {
  fields.Value("temperature", config.temperature);
  fields.Value("top_k", config.top_k);
  fields.Value("top_p", config.top_p);
  fields.Value("min_p", config.min_p);
}

template <class Archive>
void Bind(Archive& fields, RealWorldConfig& config) {
  using Device = RealWorldConfig::Device;
  fields.template Enum<Device>("device", config.device,
                               {{"cpu", Device::kCpu}, {"cuda", Device::kCuda}});
  fields.Value("threads", config.threads);
  fields.Value("pin_output_lengths", config.pin_output_lengths);
  fields.Value("dummy_weights", config.dummy_weights);
  fields.OptionalSeconds("client_timeout_s", config.client_timeout);
  fields.Seconds("rank_timeout_s", config.rank_timeout);
  fields.Nested("sampling", config.sampling);
  fields.Value("fp8_fast_accumulation", config.model_options.fp8_fast_accumulation);
  using Kernel = AttentionKernel;
  fields.template Enum<std::optional<Kernel>>("attention", config.model_options.attention_kernel,
                                              {{"auto", std::nullopt},
                                               {"fa3", Kernel::kFa3},
                                               {"fa2", Kernel::kFa2},
                                               {"cuda_core", Kernel::kCudaCore},
                                               {"generic", Kernel::kGeneric}});
}

template <class Archive>
void Bind(Archive& fields, EmulatedWorldConfig& config) {
  fields.Value("speed", config.speed);
  fields.OptionalSeconds("client_timeout_s", config.client_timeout);
  fields.OptionalNested("output", config.output);
}

}  // namespace twin
