// Binds members of a request's config to fields of its message (field_binding.h).
#pragma once

#include "config/field_binding.h"
#include "config/recommend_config.h"

namespace twin {

template <class Archive>
void Bind(Archive& fields, ServedModelConfig& config) {
  fields.Value("name", config.name);
  fields.Value("checkpoint", config.checkpoint);
}

template <class Archive>
void Bind(Archive& fields, OfferedFfnConfig& config) {
  fields.Value("name", config.name);
  fields.Value("devices", config.devices);
  fields.Value("price_per_hour", config.price_per_hour);
}

template <class Archive>
void Bind(Archive& fields, OfferedHardwareConfig& config) {
  fields.Value("name", config.name);
  fields.Value("devices", config.devices);
  fields.Value("price_per_hour", config.price_per_hour);
  fields.OptionalNested("ffn", config.ffn);
}

template <class Archive>
void Bind(Archive& fields, OpenSettingsConfig& config) {
  fields.Values("server", config.server);
  fields.Values("tensor_parallel", config.tensor_parallel);
  fields.Values("pipeline_parallel", config.pipeline_parallel);
  fields.Values("replicas", config.replicas);
  fields.Values("prefill_replicas", config.prefill_replicas);
  fields.Values("token_budget", config.token_budget);
  fields.Values("max_num_seqs", config.max_num_seqs);
  fields.Values("gpu_memory_utilization", config.gpu_memory_utilization);
  fields.Values("weight_dtype", config.weight_dtype);
  fields.Values("max_batch_total_tokens", config.max_batch_total_tokens);
  fields.Values("waiting_served_ratio", config.waiting_served_ratio);
  fields.Values("schedule_policy", config.schedule_policy);
  fields.Values("context_chunking_policy", config.context_chunking_policy);
  fields.Values("attention_groups", config.attention_groups);
  fields.Values("ffn_devices", config.ffn_devices);
  fields.Values("micro_batches", config.micro_batches);
}

template <class Archive>
void Bind(Archive& fields, RecommendConfig& config) {
  using Objective = RecommendConfig::Objective;
  fields.List("model", config.models);
  fields.List("hardware", config.hardware);
  fields.Value("until", config.until);
  fields.template Enum<Objective>("objective", config.objective,
                                  {{"goodput", Objective::kGoodput},
                                   {"cost", Objective::kCost},
                                   {"latency", Objective::kLatency},
                                   {"users", Objective::kUsers},
                                   {"fleet", Objective::kFleet},
                                   {"energy", Objective::kEnergy}});
  fields.Value("latency_metric", config.latency_metric);
  fields.Nested("settings", config.settings);
  fields.Value("max_model_len", config.max_model_len);
  fields.Value("requests", config.requests);
  fields.Value("replications", config.replications);
  fields.Value("tolerance", config.tolerance);
  fields.Value("seed", config.seed);
  fields.Values("set", config.set);
}

}  // namespace twin
