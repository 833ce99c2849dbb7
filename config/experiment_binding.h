// Binds members of an experiment's config to fields of its message (field_binding.h).
#pragma once

#include <optional>

#include "config/cost_binding.h"
#include "config/experiment_config.h"
#include "config/field_binding.h"
#include "config/policy_binding.h"
#include "config/system_binding.h"
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

template <class Archive>
void Bind(Archive& fields, sim::BoundaryConfig& config) {
  fields.Nested("request_s", config.request);
  fields.Nested("response_s", config.response);
  fields.Nested("client_reaction_s", config.client_reaction);
}

template <class Archive>
void Bind(Archive& fields, RouterConfig& config) {
  using Kind = RouterKind;
  fields.template Enum<Kind>("kind", config.kind,
                             {{"ROUND_ROBIN", Kind::kRoundRobin},
                              {"RANDOM", Kind::kRandom},
                              {"LEAST_REQUESTS", Kind::kLeastRequests},
                              {"LEAST_TOKENS", Kind::kLeastTokens},
                              {"LEAST_KV", Kind::kLeastKv},
                              {"POWER_OF_TWO", Kind::kPowerOfTwo},
                              {"SESSION_HASH", Kind::kSessionHash},
                              {"PREFIX_AFFINITY", Kind::kPrefixAffinity},
                              {"KV_OVERLAP", Kind::kKvOverlap}});
  fields.Value("telemetry_delay_ms", config.telemetry_delay_ms);
  fields.Value("cache_threshold", config.cache_threshold);
  fields.Value("balance_abs_threshold", config.balance_abs_threshold);
  fields.Value("balance_rel_threshold", config.balance_rel_threshold);
  fields.Value("max_tree_size", config.max_tree_size);
  fields.Seconds("eviction_interval_s", config.eviction_interval);
  fields.Value("overlap_weight", config.overlap_weight);
}

template <class Archive>
void Bind(Archive& fields, sim::LinkConfig& config) {
  fields.Value("latency_us", config.latency_us);
  fields.Value("bandwidth_gbps", config.bandwidth_gbps);
  fields.Value("layer_wise", config.layer_wise);
  fields.Value("layer_wise_min_tokens", config.layer_wise_min_tokens);
}

template <class Archive>
void Bind(Archive& fields, MixedPoolConfig& config) {
  fields.Value("prompt_max_pending_batch_tokens", config.prompt_max_pending_batch_tokens);
}

template <class Archive>
void Bind(Archive& fields, DisaggregatedSystem& config) {
  DisaggregationConfig& pools = config.pools;
  fields.Value("prefill_replicas", pools.prefill_replicas);
  fields.Value("decode_replicas", pools.decode_replicas);
  fields.Nested("decode_router", pools.decode_router);
  fields.Nested("link", config.link);
  fields.OptionalNested("mixed_pool", pools.mixed_pool);
}

template <class Archive>
void Bind(Archive& fields, sim::FfnLinkConfig& config) {
  fields.OptionalValue("bandwidth_gbps", config.bandwidth_gbps);
  fields.OptionalValue("latency_us", config.latency_us);
}

// Before reading, the message must hold the whole hardware_spec.
template <class Archive>
void Bind(Archive& fields, sim::FfnConfig& config) {
  using Placement = sim::AfdPlacement;
  fields.Value("hardware", config.hardware);
  fields.Nested("hardware_spec", config.hardware_spec);
  fields.Value("devices", config.devices);
  fields.Value("attention_groups", config.attention_groups);
  fields.Value("micro_batches", config.micro_batches);
  fields.template Enum<Placement>(
      "placement", config.placement,
      {{"POOLED", Placement::kPooled}, {"PER_LAYER", Placement::kPerLayer}});
  fields.Nested("link", config.link);
  fields.OptionalValue("expert_parallel", config.expert_parallel);
  fields.Value("utilization", config.utilization);
  fields.OptionalNested("cost", config.cost);
}

template <class Archive>
void Bind(Archive& fields, WorldConfig& config) {
  fields.template Choice<SimulatedWorldConfig>("simulated", config);
  fields.template Choice<RealWorldConfig>("real", config);
  fields.template Choice<EmulatedWorldConfig>("emulated", config);
}

// Number and role of the replicas of a group.
template <class Archive>
void BindPlace(Archive& fields, ReplicaGroup& group) {
  using Role = ReplicaGroup::Role;
  fields.Value("count", group.count);
  fields.template Enum<Role>(
      "role", group.role,
      {{"both", Role::kBoth}, {"prefill", Role::kPrefill}, {"decode", Role::kDecode}});
}

template <class Archive>
void Bind(Archive& fields, ReplicaGroup& group) {
  BindPlace(fields, group);
  fields.Value("hardware", group.hardware);
  fields.Nested("hardware_spec", group.hardware_spec);
  BindSplit(fields, group.parallelism);
  fields.Nested("memory", group.memory);
  fields.Nested("policy", group.policy);
  fields.Nested("cost", group.cost);
  fields.OptionalNested("ffn", group.ffn);
}

// Before reading, the specs must hold what `model` and `hardware` name: the message only replaces
// fields.
template <class Archive>
void Bind(Archive& fields, SystemConfig& config) {
  fields.Value("model", config.model);
  fields.Nested("model_shape", config.model_spec);
  fields.Value("hardware", config.hardware);
  fields.Nested("hardware_spec", config.hardware_spec);
  BindSplit(fields, config.parallelism);
  fields.Nested("memory", config.memory);
  fields.OptionalNested("boundary", config.boundary);
  fields.OptionalValue("server", config.server);
  fields.OptionalValue("server_asked", config.server_asked);
  fields.Value("replicas", config.replicas);
  fields.Nested("router", config.router);
  fields.OptionalNested("disaggregation", config.disaggregation);
  fields.List("replica_groups", config.groups);
  fields.OptionalNested("ffn", config.ffn);
}

template <class Archive>
void Bind(Archive& fields, ServiceGoal& config) {
  fields.OptionalSeconds("ttft_s", config.ttft);
  fields.OptionalSeconds("tpot_s", config.tpot);
  fields.OptionalSeconds("e2el_s", config.e2el);
}

template <class Archive>
void Bind(Archive& fields, RunMetricsConfig& config) {
  fields.Value("head_share", config.head_share);
  fields.Value("tail_share", config.tail_share);
  fields.Seconds("stall_threshold_s", config.stall_threshold);
  fields.Value("by_tenant", config.by_tenant);
  fields.Seconds("series_interval_s", config.series_interval);
  fields.Value("series_points_max", config.series_points_max);
}

template <class Archive>
void Bind(Archive& fields, OutputsConfig& config) {
  fields.Value("requests_csv", config.requests_csv);
  fields.Value("steps_csv", config.steps_csv);
  fields.Value("series_csv", config.series_csv);
  fields.Value("record", config.record);
  fields.Value("compress_record", config.compress_record);
  fields.Value("perfetto", config.perfetto);
}

// Without acceptance_length, which becomes a rate.
template <class Archive>
void Bind(Archive& fields, SpeculationConfig& config) {
  fields.template Enum<SpecMethod>("method", config.rules.method,
                                   {{"ngram", SpecMethod::kNgram},
                                    {"eagle", SpecMethod::kEagle},
                                    {"draft_model", SpecMethod::kDraftModel},
                                    {"mtp", SpecMethod::kMtp}});
  fields.Value("num_speculative_tokens", config.rules.num_speculative_tokens);
  fields.Values("acceptance_rates", config.acceptance.rates);
  fields.Value("proposal_rate", config.acceptance.proposal_rate);
  fields.Seconds("propose_s", config.propose);
  fields.Value("model", config.draft_model);
  fields.Value("prompt_lookup_min", config.prompt_lookup_min);
  fields.Value("prompt_lookup_max", config.prompt_lookup_max);
}

// Binds all fields but schema_version and base, which belong to the file.
template <class Archive>
void Bind(Archive& fields, ExperimentConfig& config) {
  fields.Value("name", config.name);
  fields.Value("seed", config.seed);
  fields.Nested("world", config.world);
  fields.Nested("workload", config.workload);
  ChosenPolicy policy{config.policy, config.policy_file};
  fields.Nested("policy", policy);
  fields.Nested("system", config.system);
  fields.Nested("cost", config.cost);
  fields.Nested("slo", config.slo);
  fields.Nested("metrics", config.metrics);
  fields.Nested("outputs", config.outputs);
  fields.OptionalNested("speculation", config.speculation);
}

}  // namespace twin
