// Binds members of the configs of orders and deadlines to fields of its message
// (field_binding.h).
#pragma once

#include "config/field_binding.h"
#include "sched/policy/distserve.h"
#include "sched/policy/fastserve.h"
#include "sched/policy/order_config.h"
#include "sched/policy/slack_chunking.h"
#include "sched/policy/splitwise.h"

namespace twin {

template <class Archive>
void Bind(Archive& fields, ServiceTier& config) {
  fields.Seconds("ttft_s", config.ttft);
  fields.Seconds("tbt_s", config.tbt);
  fields.Seconds("ttlt_s", config.ttlt);
}

template <class Archive>
void Bind(Archive& fields, OrderConfig& config) {
  using Kind = OrderConfig::Kind;
  using Size = OrderConfig::Size;
  fields.template Enum<Kind>("kind", config.kind,
                             {{"fcfs", Kind::kFcfs},
                              {"priority", Kind::kPriority},
                              {"sjf", Kind::kSjf},
                              {"srpt", Kind::kSrpt},
                              {"vtc", Kind::kVtc},
                              {"edf", Kind::kEdf}});
  fields.Seconds("ageing_s", config.ageing);
  fields.template Enum<Size>("size", config.size,
                             {{"output", Size::kOutput}, {"prompt", Size::kPrompt}});
  fields.Value("input_weight", config.shares.input_weight);
  fields.Value("output_weight", config.shares.output_weight);
  fields.Values("tenant_shares", config.shares.tenant_shares);
  fields.List("tiers", config.tiers);
  fields.Seconds("token_time_s", config.token_time);
}

template <class Archive>
void Bind(Archive& fields, SlackChunking& config) {
  fields.Value("least_chunk_size", config.least_chunk_size);
  fields.Value("safety_factor", config.safety_factor);
  fields.Seconds("step_time_s", config.step_time);
  fields.Seconds("token_time_s", config.token_time);
  fields.Seconds("context_token_time_s", config.context_token_time);
  fields.Value("relegates", config.relegates);
}

template <class Archive>
void Bind(Archive& fields, DistServeConfig& config) {
  fields.Value("context_max_batch_size", config.context_max_batch_size);
  fields.Value("context_max_tokens_per_batch", config.context_max_tokens_per_batch);
  fields.Value("decoding_max_batch_size", config.decoding_max_batch_size);
  fields.Value("decoding_max_tokens_per_batch", config.decoding_max_tokens_per_batch);
  fields.Value("waiting_block_prop_threshold", config.waiting_block_prop_threshold);
  fields.Value("pipeline_parallel_size", config.pipeline_parallel_size);
  fields.Value("max_model_len", config.max_model_len);
}

template <class Archive>
void Bind(Archive& fields, SplitwiseConfig& config) {
  fields.Value("max_batch_size", config.max_batch_size);
  fields.Value("max_batch_tokens", config.max_batch_tokens);
  fields.Value("max_preemptions", config.max_preemptions);
  fields.Value("max_model_len", config.max_model_len);
}

template <class Archive>
void Bind(Archive& fields, FastServeConfig& config) {
  fields.Value("max_batch_size", config.max_batch_size);
  fields.Value("max_tokens_per_batch", config.max_tokens_per_batch);
  fields.Value("max_model_len", config.max_model_len);
  fields.Value("use_skip_join", config.use_skip_join);
  fields.Seconds("base_quantum_s", config.base_quantum);
  fields.Value("threshold", config.threshold);
  fields.Value("num_queues", config.num_queues);
  fields.Seconds("prefill_s", config.prefill_time);
  fields.Seconds("prefill_token_s", config.prefill_token_time);
  fields.Value("starvation_period", config.starvation_period);
  fields.Seconds("starvation_threshold_s", config.starvation_threshold);
  fields.Value("proactive_offloading", config.proactive_offloading);
  fields.Value("num_min_free_blocks_threshold", config.num_min_free_blocks_threshold);
}

}  // namespace twin
