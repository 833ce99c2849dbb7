// Binds members of a cost model's config to fields of its message (field_binding.h).
#pragma once

#include "config/field_binding.h"
#include "config/profile_binding.h"
#include "config/step_engine_names.h"
#include "config/system_binding.h"
#include "sim/cost/registry.h"

namespace twin {

template <class Archive>
void Bind(Archive& fields, sim::ConstantCostConfig& config) {
  fields.Seconds("host_s", config.host_time);
  fields.Seconds("step_s", config.step_time);
}

template <class Archive>
void Bind(Archive& fields, sim::LinearCostConfig& config) {
  fields.Value("host_s", config.host_s);
  fields.Value("host_per_item_s", config.host_per_item_s);
  fields.Value("base_s", config.base_s);
  fields.Value("per_prefill_token_s", config.per_prefill_token_s);
  fields.Value("per_decode_item_s", config.per_decode_item_s);
  fields.Value("per_decode_context_token_s", config.per_decode_context_token_s);
  fields.Value("per_attention_pair_s", config.per_attention_pair_s);
  fields.Value("swap_latency_s", config.swap_latency_s);
  fields.Value("per_swapped_block_s", config.per_swapped_block_s);
}

template <class Archive>
void Bind(Archive& fields, sim::RooflineCostConfig& config) {
  fields.Value("gemm_tile_tokens", config.gemm_tile_tokens);
  fields.Value("overlaps_attention", config.overlaps_attention);
  fields.Value("host_s", config.host_s);
  fields.Value("host_per_item_s", config.host_per_item_s);
  fields.Value("host_per_token_s", config.host_per_token_s);
}

template <class Archive>
void Bind(Archive& /*fields*/, sim::DataflowCostConfig& /*config*/) {}

template <class Archive>
void Bind(Archive& fields, sim::CostPoint& point) {
  fields.Value("at", point.at);
  fields.Value("seconds", point.seconds);
}

template <class Archive>
void Bind(Archive& fields, sim::LinearPart& part) {
  fields.Value("base_s", part.base_s);
  fields.Value("per_item_s", part.per_item_s);
  fields.Value("per_token_s", part.per_token_s);
}

template <class Archive>
void Bind(Archive& fields, sim::AttentionPart& part) {
  fields.Value("base_s", part.base_s);
  fields.Value("per_prefill_item_s", part.per_prefill_item_s);
  fields.Value("per_prefill_token_s", part.per_prefill_token_s);
  fields.Value("per_prefill_context_token_s", part.per_prefill_context_token_s);
  fields.Value("per_prefill_pair_s", part.per_prefill_pair_s);
  fields.Value("per_decode_item_s", part.per_decode_item_s);
  fields.Value("per_decode_context_token_s", part.per_decode_context_token_s);
}

// Binds all fields but `path`. Before reading, the config must hold the content of the file at
// `path`; when written, it holds that content.
template <class Archive>
void Bind(Archive& fields, sim::FittedCostConfig& config) {
  fields.Value("model", config.model);
  fields.Value("parameters", config.parameters);
  fields.template Enum<DType>("weight_dtype", config.weight_dtype, kDTypeNames);
  fields.template Enum<DType>("kv_dtype", config.kv_dtype, kDTypeNames);
  fields.Value("machine", config.machine);
  fields.Value("threads", config.threads);
  fields.Value("commit", config.commit);
  fields.Values("decode_buckets", config.decode_buckets);
  fields.List("gemm_layers", config.gemm_layers);
  fields.List("gemm_head", config.gemm_head);
  fields.Value("gemm_decode_factor", config.gemm_decode_factor);
  fields.Value("gemm_prefill_factor", config.gemm_prefill_factor);
  fields.Value("gemm_base_s", config.gemm_base_s);
  fields.Nested("attention", config.attention);
  fields.List("other", config.other);
  fields.Value("other_factor", config.other_factor);
  fields.Value("other_base_s", config.other_base_s);
  fields.Nested("build", config.build);
  fields.Nested("sampling", config.sampling);
  fields.Nested("schedule", config.schedule);
  fields.Nested("delivery", config.delivery);
  fields.Value("swap_latency_s", config.swap_latency_s);
  fields.Value("per_swapped_block_s", config.per_swapped_block_s);
  fields.Value("decode_probe_s", config.decode_probe_s);
  fields.Value("prefill_probe_s", config.prefill_probe_s);
  fields.Value("decode_slowdown", config.decode_slowdown);
  fields.Value("prefill_slowdown", config.prefill_slowdown);
  fields.Value("tokens_max", config.tokens_max);
  fields.Value("decode_items_max", config.decode_items_max);
  fields.Value("decode_context_tokens_max", config.decode_context_tokens_max);
  fields.Value("prefill_context_tokens_max", config.prefill_context_tokens_max);
}

template <class Archive>
void Bind(Archive& fields, sim::ProfileCostConfig& config) {
  fields.Value("profile", config.profile);
  fields.template Enum<sim::StepEngine>("engine", config.engine, kStepEngineNames);
  fields.Value("captures_graphs", config.captures_graphs);
  fields.Value("captured_size_max", config.captured_size_max);
  fields.Value("draw_seed", config.draw_seed);
  fields.Value("mean_context", config.mean_context);
  fields.Value("recorded_ratios", config.recorded_ratios);
  fields.Value("expert_parallel", config.expert_parallel);
  fields.template Enum<sim::KernelLibrary>("library", config.library, kKernelLibraryNames);
  fields.template Enum<sim::ExpertsKernel>("experts_kernel", config.experts_kernel,
                                           kExpertsKernelNames);
  fields.OptionalValue("heat_factor", config.heat_factor);
  fields.OptionalValue("heat_tau_s", config.heat_tau_s);
  fields.OptionalValue("decode_heat_factor", config.decode_heat_factor);
  fields.OptionalValue("compute_in_place", config.compute_in_place);
  fields.OptionalValue("collective_in_place", config.collective_in_place);
  fields.OptionalValue("graph_gap_s", config.graph_gap_s);
  fields.OptionalValue("eager_gap_s", config.eager_gap_s);
  fields.OptionalValue("hidden_gap_s", config.hidden_gap_s);
  fields.OptionalValue("layer_launch_s", config.layer_launch_s);
  fields.OptionalValue("host_s", config.host_s);
  fields.OptionalValue("host_per_item_s", config.host_per_item_s);
}

template <class Archive>
void Bind(Archive& fields, sim::CostConfig& config) {
  fields.template Choice<sim::ConstantCostConfig>("constant", config);
  fields.template Choice<sim::LinearCostConfig>("linear", config);
  fields.template Choice<sim::RooflineCostConfig>("roofline", config);
  fields.template Choice<sim::FittedCostConfig>("fitted", config);
  fields.template Choice<sim::ProfileCostConfig>("profile", config);
  fields.template Choice<sim::DataflowCostConfig>("dataflow", config);
}

}  // namespace twin
