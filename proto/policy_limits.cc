#include "proto/policy_limits.h"

#include <cstdint>

#include "core/input_error.h"

namespace twin {

namespace {

void Require(bool holds, const char* field, std::int64_t value, const std::string& allowed) {
  if (holds) return;
  throw InputError(InputError::Kind::kUsage, std::string("policy.") + field,
                   "is " + std::to_string(value) + ", " + allowed);
}

std::string AtLeast(const char* other, std::int64_t value) {
  return std::string("must be at least ") + other + " (" + std::to_string(value) + ")";
}

std::string AtMost(const char* other, std::int64_t value) {
  return std::string("must be at most ") + other + " (" + std::to_string(value) + ")";
}

struct Checker {
  void operator()(const StaticConfig&) const {}
  void operator()(const OrcaConfig&) const {}
  void operator()(const SplitFuseConfig&) const {}

  void operator()(const VllmV0Config& c) const {
    const char* field = "vllm_v0.max_num_batched_tokens";
    Require(c.max_num_batched_tokens >= c.max_num_seqs, field, c.max_num_batched_tokens,
            AtLeast("max_num_seqs", c.max_num_seqs));
    Require(c.enable_chunked_prefill || c.max_num_batched_tokens >= c.max_model_len, field,
            c.max_num_batched_tokens,
            AtLeast("max_model_len", c.max_model_len) + " unless enable_chunked_prefill");
  }

  void operator()(const VllmV1Config& c) const {
    const char* field = "vllm_v1.max_num_batched_tokens";
    Require(c.max_num_batched_tokens >= c.max_num_seqs, field, c.max_num_batched_tokens,
            AtLeast("max_num_seqs", c.max_num_seqs));
    Require(c.enable_chunked_prefill || c.max_num_batched_tokens >= c.max_model_len, field,
            c.max_num_batched_tokens,
            AtLeast("max_model_len", c.max_model_len) + " unless enable_chunked_prefill");
    Require(c.long_prefill_token_threshold <= c.max_model_len,
            "vllm_v1.long_prefill_token_threshold", c.long_prefill_token_threshold,
            AtMost("max_model_len", c.max_model_len));
    Require(c.max_num_active_seqs <= c.max_num_seqs, "vllm_v1.max_num_active_seqs",
            c.max_num_active_seqs, AtMost("max_num_seqs", c.max_num_seqs));
    Require(c.max_num_scheduled_tokens <= c.max_num_batched_tokens,
            "vllm_v1.max_num_scheduled_tokens", c.max_num_scheduled_tokens,
            AtMost("max_num_batched_tokens", c.max_num_batched_tokens));
  }

  void operator()(const SarathiConfig& c) const {
    if (!c.enable_dynamic_chunking_schedule) return;
    const std::string positive = "must be at least 1 with enable_dynamic_chunking_schedule";
    Require(c.low_chunk_size >= 1, "sarathi.low_chunk_size", c.low_chunk_size, positive);
    Require(c.chunk_schedule_max_tokens >= 1, "sarathi.chunk_schedule_max_tokens",
            c.chunk_schedule_max_tokens, positive);
    Require(c.chunk_schedule_stages >= 1, "sarathi.chunk_schedule_stages", c.chunk_schedule_stages,
            positive);
    Require(c.high_chunk_size >= c.low_chunk_size, "sarathi.high_chunk_size", c.high_chunk_size,
            AtLeast("low_chunk_size", c.low_chunk_size));
  }
};

struct Limits {
  sim::MemoryRule rule = sim::MemoryRule::kVllmV1;
  std::int64_t step_tokens = 0;  // 0: the policy does not bound it
  std::int64_t sequences = 0;
  std::int32_t model_length = 0;
};

struct LimitsOf {
  Limits operator()(const StaticConfig& c) const {
    return {sim::MemoryRule::kVllmV1, 0, c.max_batch_size, c.padded ? 0 : c.max_model_len};
  }
  Limits operator()(const OrcaConfig& c) const {
    return {sim::MemoryRule::kVllmV1, 0, c.max_bs, c.max_model_len};
  }
  Limits operator()(const VllmV0Config& c) const {
    return {sim::MemoryRule::kVllmV0, c.max_num_batched_tokens, c.max_num_seqs, c.max_model_len};
  }
  Limits operator()(const VllmV1Config& c) const {
    return {sim::MemoryRule::kVllmV1, c.max_num_batched_tokens, c.max_num_seqs, c.max_model_len};
  }
  Limits operator()(const SarathiConfig& c) const {
    const bool dynamic = c.enable_dynamic_chunking_schedule;
    return {sim::MemoryRule::kSarathi, dynamic ? c.high_chunk_size : c.chunk_size, c.max_num_seqs,
            c.max_model_len};
  }
  Limits operator()(const SplitFuseConfig& c) const {
    return {sim::MemoryRule::kMii, c.max_ragged_batch_size, c.max_ragged_sequence_count,
            c.max_length};
  }
};

}  // namespace

sim::MemoryConfig MemoryDefaultsFor(const PolicyConfig& policy) {
  const Limits limits = std::visit(LimitsOf{}, policy);
  sim::MemoryConfig memory;
  memory.rule = limits.rule;
  if (limits.step_tokens > 0) memory.max_step_tokens = limits.step_tokens;
  if (limits.sequences > 0) memory.max_sequences = limits.sequences;
  if (limits.model_length > 0) memory.max_model_length = limits.model_length;
  return memory;
}

void Validate(const PolicyConfig& policy) { std::visit(Checker{}, policy); }

}  // namespace twin
