// Binds members of a policy's config to fields of its message (field_binding.h).
#pragma once

#include <optional>
#include <type_traits>

#include "config/order_binding.h"
#include "config/policy_file.h"
#include "sched/policy/registry.h"

namespace twin {

inline constexpr EnumNames<QueueOrder> kQueueOrderNames = {{"fcfs", QueueOrder::kFcfs},
                                                           {"priority", QueueOrder::kPriority}};

template <class Archive>
void Bind(Archive& fields, StaticConfig& config) {
  fields.Value("padded", config.padded);
  fields.Value("max_batch_size", config.max_batch_size);
  fields.Value("max_model_len", config.max_model_len);
  fields.OptionalNested("order", config.order);
}

template <class Archive>
void Bind(Archive& fields, TritonConfig& config) {
  fields.Value("max_batch_size", config.max_batch_size);
  fields.Values("preferred_batch_size", config.preferred_batch_size);
  fields.Value("max_queue_delay_microseconds", config.max_queue_delay_microseconds);
  fields.Value("instance_count", config.instance_count);
  fields.Value("priority_levels", config.priority_levels);
  fields.Value("default_priority_level", config.default_priority_level);
  fields.Value("padded", config.padded);
  fields.Value("max_model_len", config.max_model_len);
  fields.OptionalNested("order", config.order);
}

template <class Archive>
void Bind(Archive& fields, LightllmConfig& config) {
  fields.Value("running_max_req_size", config.running_max_req_size);
  fields.Value("batch_max_tokens", config.batch_max_tokens);
  fields.Value("max_waiting_iters", config.max_waiting_iters);
  fields.Value("max_model_len", config.max_model_len);
  fields.OptionalNested("order", config.order);
}

template <class Archive>
void Bind(Archive& fields, OrcaConfig& config) {
  fields.template Enum<OrcaConfig::Reservation>(
      "reservation", config.reservation,
      {{"request", OrcaConfig::Reservation::kRequest}, {"model", OrcaConfig::Reservation::kModel}});
  fields.Value("n_workers", config.n_workers);
  fields.Value("max_bs", config.max_bs);
  fields.Value("max_model_len", config.max_model_len);
  fields.Value("prefills_first", config.prefills_first);
  fields.OptionalNested("order", config.order);
}

template <class Archive>
void Bind(Archive& fields, VllmV0Config& config) {
  using Mode = VllmV0Config::PreemptionMode;
  fields.Value("max_num_batched_tokens", config.max_num_batched_tokens);
  fields.Value("max_num_seqs", config.max_num_seqs);
  fields.Value("max_model_len", config.max_model_len);
  fields.Value("watermark", config.watermark);
  fields.template Enum<Mode>("preemption_mode", config.preemption_mode,
                             {{"recompute", Mode::kRecompute}, {"swap", Mode::kSwap}});
  fields.Value("enable_chunked_prefill", config.enable_chunked_prefill);
  fields.template Enum<QueueOrder>("policy", config.policy, kQueueOrderNames);
  fields.OptionalNested("order", config.order);
  fields.Value("speculative_disable_by_batch_size", config.speculative_disable_by_batch_size);
}

template <class Archive>
void Bind(Archive& fields, VllmV1Config& config) {
  fields.template Enum<VllmV1Release>("release", config.release,
                                      {{"v0_15_1", VllmV1Release::k0_15_1},
                                       {"v0_19_0", VllmV1Release::k0_19_0},
                                       {"v0_23_0", VllmV1Release::k0_23_0},
                                       {"v0_24_0", VllmV1Release::k0_24_0},
                                       {"v0_28_0", VllmV1Release::k0_28_0},
                                       {"v0_31_0", VllmV1Release::k0_31_0},
                                       {"v0_33_0", VllmV1Release::k0_33_0}});
  fields.Value("max_num_batched_tokens", config.max_num_batched_tokens);
  fields.Value("max_num_seqs", config.max_num_seqs);
  fields.Value("max_model_len", config.max_model_len);
  fields.template Enum<QueueOrder>("policy", config.policy, kQueueOrderNames);
  fields.Value("enable_chunked_prefill", config.enable_chunked_prefill);
  fields.Value("long_prefill_token_threshold", config.long_prefill_token_threshold);
  fields.Value("long_prefill_token_threshold_adaptive",
               config.long_prefill_token_threshold_adaptive);
  fields.Value("enable_prefix_caching", config.enable_prefix_caching);
  fields.Value("async_scheduling", config.async_scheduling);
  fields.Value("scheduler_reserve_full_isl", config.scheduler_reserve_full_isl);
  fields.Value("watermark", config.watermark);
  fields.Value("prefill_schedule_interval", config.prefill_schedule_interval);
  fields.Value("max_num_active_seqs", config.max_num_active_seqs);
  fields.Value("max_num_scheduled_tokens", config.max_num_scheduled_tokens);
  fields.Value("pipeline_parallel_size", config.pipeline_parallel_size);
  fields.Value("prefix_cache_retention_interval", config.prefix_cache_retention_interval);
  fields.OptionalNested("order", config.order);
}

template <class Archive>
void Bind(Archive& fields, SarathiConfig& config) {
  using Scheduler = SarathiConfig::Scheduler;
  fields.template Enum<Scheduler>("scheduler", config.scheduler,
                                  {{"sarathi", Scheduler::kSarathi},
                                   {"vllm", Scheduler::kVllm},
                                   {"simple_chunking", Scheduler::kSimpleChunking}});
  fields.Value("chunk_size", config.chunk_size);
  fields.Value("max_num_seqs", config.max_num_seqs);
  fields.Value("max_model_len", config.max_model_len);
  fields.Value("watermark", config.watermark);
  fields.Value("pipeline_parallel_size", config.pipeline_parallel_size);
  fields.Value("enable_dynamic_chunking_schedule", config.enable_dynamic_chunking_schedule);
  fields.Value("low_chunk_size", config.low_chunk_size);
  fields.Value("high_chunk_size", config.high_chunk_size);
  fields.Value("chunk_schedule_max_tokens", config.chunk_schedule_max_tokens);
  fields.Value("chunk_schedule_stages", config.chunk_schedule_stages);
  fields.OptionalNested("order", config.order);
  fields.OptionalNested("slack_chunking", config.slack_chunking);
}

template <class Archive>
void Bind(Archive& fields, SplitFuseConfig& config) {
  fields.Value("max_ragged_batch_size", config.max_ragged_batch_size);
  fields.Value("max_ragged_sequence_count", config.max_ragged_sequence_count);
  fields.Value("max_length", config.max_length);
  fields.OptionalNested("order", config.order);
}

template <class Archive, class Config>
requires(std::is_same_v<Config, TgiV2Config> ||
         std::is_same_v<Config, TgiV3Config>) void Bind(Archive& fields, Config& config) {
  fields.Value("max_batch_prefill_tokens", config.max_batch_prefill_tokens);
  fields.Value("max_batch_total_tokens", config.max_batch_total_tokens);
  if constexpr (requires { config.prefill_chunking; }) {
    fields.Value("prefill_chunking", config.prefill_chunking);
    fields.Value("prefix_caching", config.prefix_caching);
  }
  fields.Value("max_batch_size", config.max_batch_size);
  fields.Value("waiting_served_ratio", config.waiting_served_ratio);
  fields.Value("max_waiting_tokens", config.max_waiting_tokens);
  fields.Value("max_total_tokens", config.max_total_tokens);
  fields.Value("max_concurrent_requests", config.max_concurrent_requests);
  fields.OptionalNested("order", config.order);
}

template <class Archive>
void Bind(Archive& fields, TrtllmConfig& config) {
  using Capacity = TrtllmConfig::Capacity;
  using Chunking = TrtllmConfig::Chunking;
  fields.template Enum<Capacity>("capacity_scheduler_policy", config.capacity_scheduler_policy,
                                 {{"GUARANTEED_NO_EVICT", Capacity::kGuaranteedNoEvict},
                                  {"MAX_UTILIZATION", Capacity::kMaxUtilization},
                                  {"STATIC_BATCH", Capacity::kStaticBatch}});
  fields.template Enum<Chunking>("context_chunking_policy", config.context_chunking_policy,
                                 {{"none", Chunking::kNone},
                                  {"FIRST_COME_FIRST_SERVED", Chunking::kFirstComeFirstServed},
                                  {"EQUAL_PROGRESS", Chunking::kEqualProgress}});
  fields.Value("max_batch_size", config.max_batch_size);
  fields.Value("max_num_tokens", config.max_num_tokens);
  fields.Value("chunk_unit_size", config.chunk_unit_size);
  fields.Value("max_seq_len", config.max_seq_len);
  fields.Value("batch_wait_timeout_iters", config.batch_wait_timeout_iters);
  fields.Value("batch_wait_max_tokens_ratio", config.batch_wait_max_tokens_ratio);
  fields.Value("max_attention_window", config.max_attention_window);
  fields.OptionalNested("order", config.order);
}

template <class Archive>
void Bind(Archive& fields, SglangConfig& config) {
  using Order = SglangConfig::Order;
  using Retraction = SglangConfig::Retraction;
  fields.template Enum<Order>("schedule_policy", config.schedule_policy,
                              {{"fcfs", Order::kFcfs}, {"lpm", Order::kLpm}, {"lof", Order::kLof}});
  fields.Value("radix_cache", config.radix_cache);
  fields.Value("chunked_prefill_size", config.chunked_prefill_size);
  fields.Value("max_prefill_tokens", config.max_prefill_tokens);
  fields.Value("max_running_requests", config.max_running_requests);
  fields.Value("prefill_max_requests", config.prefill_max_requests);
  fields.Value("context_length", config.context_length);
  fields.Value("enable_mixed_chunk", config.enable_mixed_chunk);
  fields.Value("overlap", config.overlap);
  fields.Value("schedule_conservativeness", config.schedule_conservativeness);
  fields.Value("init_new_token_ratio", config.init_new_token_ratio);
  fields.Value("min_new_token_ratio_factor", config.min_new_token_ratio_factor);
  fields.Value("new_token_ratio_decay_steps", config.new_token_ratio_decay_steps);
  fields.Value("retract_decode_steps", config.retract_decode_steps);
  fields.Value("clip_max_new_tokens", config.clip_max_new_tokens);
  fields.Value("in_batch_check_threshold", config.in_batch_check_threshold);
  fields.Value("in_batch_deprioritize_threshold", config.in_batch_deprioritize_threshold);
  fields.Value("enable_priority_scheduling", config.enable_priority_scheduling);
  fields.Value("schedule_low_priority_values_first", config.schedule_low_priority_values_first);
  fields.Value("priority_preemption", config.priority_preemption);
  fields.Value("priority_scheduling_preemption_threshold",
               config.priority_scheduling_preemption_threshold);
  fields.template Enum<Retraction>(
      "retraction_policy", config.retraction_policy,
      {{"length", Retraction::kLength}, {"priority", Retraction::kPriority}});
  fields.Value("scheduler_recv_interval", config.scheduler_recv_interval);
  fields.OptionalNested("order", config.order);
  fields.Value("hybrid_swa_memory", config.hybrid_swa_memory);
  fields.Value("window", config.window);
  fields.Value("swa_full_tokens_ratio", config.swa_full_tokens_ratio);
  fields.Value("swa_eviction_interval", config.swa_eviction_interval);
  fields.Value("release_prefill_swa", config.release_prefill_swa);
  fields.Value("free_out_of_window_slots", config.free_out_of_window_slots);
}

template <class Archive>
void Bind(Archive& fields, ShipConfig& config) {
  using PromptSlots = ShipConfig::PromptSlots;
  fields.Value("pipeline_parallel_size", config.pipeline_parallel_size);
  fields.Value("fill_tokens", config.fill_tokens);
  fields.template Enum<PromptSlots>("prompt_slots", config.prompt_slots,
                                    {{"all", PromptSlots::kAll}, {"own", PromptSlots::kOwn}});
  fields.Value("max_num_seqs", config.max_num_seqs);
  fields.Value("max_model_len", config.max_model_len);
  fields.Value("watermark", config.watermark);
}

template <class Archive>
void Bind(Archive& fields, PolicyConfig& config) {
  ForEachPolicy([&]<class Entry>(Entry /*entry*/) {
    fields.template Choice<typename Entry::Config>(Entry::Config::kName, config);
  });
}

template <class Archive>
void Bind(Archive& fields, PolicyParameter& parameter) {
  fields.Value("name", parameter.name);
  fields.Value("value", parameter.value);
}

template <class Archive>
void Bind(Archive& fields, PolicyFile& file) {
  std::optional<std::string> path;
  if (!file.path.empty()) path = file.path;
  fields.OptionalValue("path", path);
  file.path = path.value_or("");
  fields.OptionalValue("class", file.class_name);
  fields.List("parameters", file.parameters);
  fields.OptionalValue("engine", file.engine);
}

// The policy of an experiment: one of the registry, or a file.
struct ChosenPolicy {
  PolicyConfig& registered;
  std::optional<PolicyFile>& file;
};

template <class Archive>
void Bind(Archive& fields, ChosenPolicy& policy) {
  fields.OptionalNested("own", policy.file);
  if (!policy.file) Bind(fields, policy.registered);
}

}  // namespace twin
