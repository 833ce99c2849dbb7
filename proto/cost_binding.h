// Which member of a cost model's config holds which field of its message (field_binding.h).
#pragma once

#include "proto/field_binding.h"
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
void Bind(Archive& fields, sim::CostConfig& config) {
  fields.template Choice<sim::ConstantCostConfig>("constant", config);
  fields.template Choice<sim::LinearCostConfig>("linear", config);
  fields.template Choice<sim::RooflineCostConfig>("roofline", config);
}

}  // namespace twin
