// The description of a service: its model and its state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/time.h"

namespace twin::run {

// How TGI's router forms its batches.
struct TgiBatches {
  std::int64_t max_total_tokens = 0;    // of the running batch: prompts and output limits
  std::int32_t max_waiting_tokens = 0;  // decodes after which any request joins the batch
  bool chunks_prefills = false;         // new requests join in any step
};

// Does not change while the service runs.
struct ServedModel {
  std::string name;
  std::int32_t vocabulary = 0;
  std::int32_t max_model_length = 0;  // prompt + output tokens
  std::vector<std::int32_t> end_tokens;
  std::string model_directory;   // has tokenizer.json and so on; empty if there is none
  bool samples = false;          // temperature and its fellows choose tokens; else they are ignored
  bool emulated = false;         // tokens are drawn from a generator
  bool uses_priorities = false;  // the policy reads GenerationRequest::priority
  std::string policy;            // its name in experiments, "vllm_v1"
  std::int32_t replicas = 1;
  std::int32_t block_size = 0;  // tokens per KV block
  std::int64_t blocks = 0;      // KV blocks of one replica
  double speed = 1;             // of an emulated clock: engine seconds per wall second
  std::string resolved_config;  // the experiment as it runs, in text format
  std::int32_t drafts_max = 0;  // per request and step; 0 = no speculation
  std::optional<TgiBatches> tgi = std::nullopt;  // of TGI's policies
};

// Speculative decoding so far.
struct DraftCounts {
  std::int64_t drafts = 0;  // lists of guessed tokens that a step verified
  std::int64_t tokens = 0;  // in them
  std::int64_t accepted = 0;
  std::vector<std::int64_t> accepted_at = {};  // by place in the list, up to the longest one
};

// Counters only grow. Gauges are values after the latest step.
struct ServiceState {
  TimePoint now;
  bool ready = false;  // false again once the service has ended, or failed
  bool draining = false;
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t waiting_prompt_tokens = 0;
  double kv_usage = 0;  // used blocks / blocks, 0 to 1
  std::int64_t steps = 0;
  std::int64_t step_decode_tokens = 0;    // of the latest step
  std::int64_t step_prefill_tokens = 0;   // of the latest step
  std::int64_t prompt_tokens = 0;         // computed or found in the cache, by first tokens
  std::int64_t cached_prompt_tokens = 0;  // of these, found in the cache
  std::int64_t generated_tokens = 0;
  std::int64_t cache_queried_tokens = 0;  // prompt tokens looked up in the prefix cache
  std::int64_t cache_hit_tokens = 0;
  std::int64_t preemptions = 0;
  std::int64_t reserved_tokens = 0;  // prompt + max_tokens of the requests in the batch; a gauge
  DraftCounts drafts = {};
  std::int64_t late_steps = 0;        // emulated steps told more than one step after their time
  std::int64_t refused_requests = 0;  // by the bound of the queue
};

}  // namespace twin::run
