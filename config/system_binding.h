// Binds members of a model's, a device's and a memory rule's config to fields of its message
// (field_binding.h).
#pragma once

#include "config/field_binding.h"
#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "sim/devices/kv_capacity.h"

namespace twin {

inline constexpr EnumNames<DType> kDTypeNames = {
    {"fp32", DType::kFp32},          {"bf16", DType::kBf16},
    {"fp16", DType::kFp16},          {"fp8", DType::kFp8},
    {"int8", DType::kInt8},          {"int4", DType::kInt4},
    {"fp8_block", DType::kFp8Block}, {"int4_group_32", DType::kInt4Group32},
    {"mxfp4", DType::kMxfp4},        {"nvfp4", DType::kNvfp4}};

template <class Archive>
void Bind(Archive& fields, EnergySpec& energy) {
  fields.Value("idle_watts", energy.idle_watts);
  fields.Value("base_watts", energy.base_watts);
  fields.Value("limit_watts", energy.limit_watts);
  fields.Value("joules_per_byte", energy.joules_per_byte);
  fields.Value("joules_per_flop", energy.joules_per_flop);
  fields.Value("joules_per_activation_byte", energy.joules_per_activation_byte);
  fields.Value("joules_per_routed_byte", energy.joules_per_routed_byte);
  fields.Value("joules_per_link_byte", energy.joules_per_link_byte);
  fields.Value("source", energy.source);
}

template <class Archive>
void Bind(Archive& fields, PriceSpec& price) {
  fields.Value("usd_per_hour", price.usd_per_hour);
  fields.Value("date", price.date);
  fields.Value("source", price.source);
}

template <class Archive>
void Bind(Archive& fields, ReachLatency& reach) {
  fields.Value("bytes", reach.bytes);
  fields.Value("latency_s", reach.latency_s);
}

template <class Archive>
void Bind(Archive& fields, DataflowSpec& dataflow) {
  fields.Value("install_bytes_per_s", dataflow.install_bytes_per_s);
  fields.template Enum<DType>("compute_dtype", dataflow.compute_dtype, kDTypeNames);
  fields.Value("layer_overhead_s", dataflow.layer_overhead_s);
  fields.Value("dispatch_s", dataflow.dispatch_s);
  fields.Value("global_links", dataflow.global_links);
  fields.Value("reserve_bytes", dataflow.reserve_bytes);
  fields.List("reach", dataflow.reach);
  fields.Value("source", dataflow.source);
}

template <class Archive>
void Bind(Archive& fields, HardwareSpec& spec) {
  fields.Value("name", spec.name);
  fields.Value("memory_bytes", spec.memory_bytes);
  fields.Value("memory_bandwidth_bytes_per_s", spec.memory_bandwidth_bytes_per_s);
  fields.Value("sm_count", spec.sm_count);
  fields.Value("l2_bytes", spec.l2_bytes);
  fields.Value("peak_fp32_flops", spec.peak_fp32_flops);
  fields.Value("peak_tf32_flops", spec.peak_tf32_flops);
  fields.Value("peak_bf16_flops", spec.peak_bf16_flops);
  fields.Value("peak_fp8_flops", spec.peak_fp8_flops);
  fields.Value("peak_fp4_flops", spec.peak_fp4_flops);
  fields.Value("peak_int8_flops", spec.peak_int8_flops);
  fields.Value("link_bandwidth_bytes_per_s", spec.link_bandwidth_bytes_per_s);
  fields.Value("link_latency_s", spec.link_latency_s);
  fields.Value("devices_per_node", spec.devices_per_node);
  fields.Value("inter_node_bandwidth_bytes_per_s", spec.inter_node_bandwidth_bytes_per_s);
  fields.Value("inter_node_latency_s", spec.inter_node_latency_s);
  fields.Value("pcie_bandwidth_bytes_per_s", spec.pcie_bandwidth_bytes_per_s);
  fields.Value("pcie_latency_s", spec.pcie_latency_s);
  fields.Value("host_memory_bytes", spec.host_memory_bytes);
  fields.Value("gemm_flops_fraction", spec.gemm_flops_fraction);
  fields.Value("gemm_bandwidth_fraction", spec.gemm_bandwidth_fraction);
  fields.Value("attention_flops_fraction", spec.attention_flops_fraction);
  fields.Value("attention_bandwidth_fraction", spec.attention_bandwidth_fraction);
  fields.Value("elementwise_bandwidth_fraction", spec.elementwise_bandwidth_fraction);
  fields.Value("link_bandwidth_fraction", spec.link_bandwidth_fraction);
  fields.Value("pcie_bandwidth_fraction", spec.pcie_bandwidth_fraction);
  fields.Value("gemm_latency_s", spec.gemm_latency_s);
  fields.Value("attention_latency_s", spec.attention_latency_s);
  fields.Value("attention_per_request_s", spec.attention_per_request_s);
  fields.Value("elementwise_latency_s", spec.elementwise_latency_s);
  fields.OptionalNested("energy", spec.energy);
  fields.OptionalNested("price", spec.price);
  fields.OptionalNested("dataflow", spec.dataflow);
}

template <class Archive>
void Bind(Archive& fields, StageGroup& group) {
  fields.Value("count", group.count);
  fields.Value("devices", group.devices);
  fields.Value("layers", group.layers);
}

// Fields of the message of a system, or of a group of replicas.
template <class Archive>
void BindSplit(Archive& fields, Parallelism& parallelism) {
  fields.Value("tensor_parallel", parallelism.tensor);
  fields.Value("pipeline_parallel", parallelism.pipeline);
  fields.template Enum<LinkTopology>("link_topology", parallelism.topology,
                                     {{"RING", LinkTopology::kRing},
                                      {"CLIQUE", LinkTopology::kClique},
                                      {"CLIQUE_GRID", LinkTopology::kCliqueGrid},
                                      {"DRAGONFLY", LinkTopology::kDragonfly}});
  fields.template Enum<KvSplit>("kv_split", parallelism.kv_split,
                                {{"HEADS", KvSplit::kHeads}, {"CONTEXT", KvSplit::kContext}});
  fields.List("stages", parallelism.stages);
}

template <class Archive>
void Bind(Archive& fields, MoeSpec& moe) {
  fields.Value("experts", moe.experts);
  fields.Value("experts_per_token", moe.experts_per_token);
  fields.Value("expert_intermediate", moe.expert_intermediate);
  fields.Value("shared_intermediate", moe.shared_intermediate);
  fields.Value("shared_gate", moe.shared_gate);
  fields.Value("latent", moe.latent);
  fields.Value("selection_bias", moe.selection_bias);
  fields.Value("router_bias", moe.router_bias);
  fields.Value("expert_bias", moe.expert_bias);
  fields.Value("identity_experts", moe.identity_experts);
  fields.Value("dense_intermediate", moe.dense_intermediate);
}

template <class Archive>
void Bind(Archive& fields, LatentSpec& latent) {
  fields.Value("query_rank", latent.query_rank);
  fields.Value("kv_rank", latent.kv_rank);
  fields.Value("nope_dim", latent.nope_dim);
  fields.Value("rope_dim", latent.rope_dim);
  fields.Value("value_dim", latent.value_dim);
  fields.Value("index_heads", latent.index_heads);
  fields.Value("index_dim", latent.index_dim);
  fields.Value("index_keys", latent.index_keys);
  fields.Value("reuses_index", latent.reuses_index);
}

template <class Archive>
void Bind(Archive& fields, RecurrentSpec& recurrent) {
  using Kind = RecurrentKind;
  fields.template Enum<Kind>("kind", recurrent.kind,
                             {{"gated_delta", Kind::kGatedDelta},
                              {"kimi_delta", Kind::kKimiDelta},
                              {"mamba2", Kind::kMamba2},
                              {"lightning", Kind::kLightning}});
  fields.Value("key_heads", recurrent.key_heads);
  fields.Value("value_heads", recurrent.value_heads);
  fields.Value("key_dim", recurrent.key_dim);
  fields.Value("value_dim", recurrent.value_dim);
  fields.Value("convolution", recurrent.convolution);
  fields.Value("full_rank_gate", recurrent.full_rank_gate);
  fields.Value("state_value_bytes", recurrent.state_value_bytes);
  fields.Value("full_rank_decay", recurrent.full_rank_decay);
}

template <class Archive>
void Bind(Archive& fields, BlockIndexSpec& index) {
  fields.Value("heads", index.heads);
  fields.Value("dim", index.dim);
  fields.Value("block", index.block);
  fields.Value("blocks", index.blocks);
}

template <class Archive>
void Bind(Archive& fields, LayerSpec& layer) {
  fields.Value("query_heads", layer.query_heads);
  fields.Value("query_rank", layer.query_rank);
  fields.Value("kv_heads", layer.kv_heads);
  fields.Value("head_dim", layer.head_dim);
  fields.Value("value_dim", layer.value_dim);
  fields.Value("sliding_window", layer.sliding_window);
  fields.Value("chunk", layer.chunk);
  fields.Value("qkv_bias", layer.qkv_bias);
  fields.Value("output_bias", layer.output_bias);
  fields.Value("qk_norm", layer.qk_norm);
  fields.Value("full_qk_norm", layer.full_qk_norm);
  fields.Value("sinks", layer.sinks);
  fields.Value("keys_are_values", layer.keys_are_values);
  fields.template Enum<OutputGate>(
      "output_gate", layer.output_gate,
      {{"none", OutputGate::kNone}, {"full", OutputGate::kFull}, {"head", OutputGate::kHead}});
  fields.OptionalNested("latent", layer.latent);
  fields.OptionalNested("recurrent", layer.recurrent);
  fields.OptionalNested("block_index", layer.block_index);
  fields.Value("intermediate", layer.intermediate);
  fields.Value("gated_mlp", layer.gated_mlp);
  fields.Value("mlp_bias", layer.mlp_bias);
  fields.Nested("moe", layer.moe);
  fields.Value("norms_per_layer", layer.norms_per_layer);
  fields.Value("scales_per_layer", layer.scales_per_layer);
  fields.Value("linears", layer.linears);
}

template <class Archive>
void Bind(Archive& fields, LayerGroup& group) {
  fields.Value("layers", group.layers);
  fields.Nested("layer", group.layer);
}

template <class Archive>
void Bind(Archive& fields, WeightFormats& formats) {
  fields.template OptionalEnum<DType>("attention", formats.attention, kDTypeNames);
  fields.template OptionalEnum<DType>("recurrent", formats.recurrent, kDTypeNames);
  fields.template OptionalEnum<DType>("dense", formats.dense, kDTypeNames);
  fields.template OptionalEnum<DType>("shared", formats.shared, kDTypeNames);
  fields.template OptionalEnum<DType>("experts", formats.experts, kDTypeNames);
}

template <class Archive>
void Bind(Archive& fields, ModelSpec& model) {
  fields.Value("name", model.name);
  fields.Value("layers", model.layers);
  fields.Value("hidden", model.hidden);
  Bind(fields, static_cast<LayerSpec&>(model));
  fields.Value("vocab", model.vocab);
  fields.Value("max_position", model.max_position);
  fields.Value("tied_embeddings", model.tied_embeddings);
  fields.template Enum<NormKind>(
      "norm", model.norm, {{"rms_norm", NormKind::kRmsNorm}, {"layer_norm", NormKind::kLayerNorm}});
  fields.Value("final_norm", model.final_norm);
  fields.Value("learned_positions", model.learned_positions);
  fields.Value("embedding_width", model.embedding_width);
  fields.Value("windowed_layers", model.windowed_layers);
  fields.List("groups", model.groups);
  fields.OptionalNested("mtp_layer", model.mtp_layer);
  fields.template Enum<DType>("weight_dtype", model.weight_dtype, kDTypeNames);
  fields.Nested("formats", model.formats);
  fields.template Enum<DType>("kv_dtype", model.kv_dtype, kDTypeNames);
}

template <class Archive>
void Bind(Archive& fields, sim::MemoryConfig& config) {
  using Rule = sim::MemoryRule;
  fields.template Enum<Rule>("rule", config.rule,
                             {{"vllm_v1", Rule::kVllmV1},
                              {"vllm_v0", Rule::kVllmV0},
                              {"sarathi", Rule::kSarathi},
                              {"vidur", Rule::kVidur},
                              {"mii", Rule::kMii},
                              {"tgi", Rule::kTgi},
                              {"trtllm", Rule::kTrtLlm},
                              {"sglang", Rule::kSglang},
                              {"orca", Rule::kOrca},
                              {"ship", Rule::kShip}});
  fields.OptionalValue("utilization", config.utilization);
  fields.Value("block_size", config.block_size);
  fields.Value("max_step_tokens", config.max_step_tokens);
  fields.Value("max_sequences", config.max_sequences);
  fields.OptionalValue("max_model_length", config.max_model_length);
  fields.OptionalValue("activation_bytes", config.activation_bytes);
  fields.Value("non_framework_bytes", config.non_framework_bytes);
  fields.Value("swap_bytes", config.swap_bytes);
  fields.OptionalValue("max_cache_tokens", config.max_cache_tokens);
  fields.OptionalValue("blocks_override", config.blocks_override);
  fields.OptionalValue("kv_bytes_override", config.kv_bytes_override);
  fields.Value("kv_groups", config.kv_groups);
}

}  // namespace twin
