// Modes of the schedulers of servers: Triton, LightLLM, TensorRT-LLM, SGLang, DistServe and
// Splitwise.
#include "tests/support/hostile_servers.h"

#include <string>
#include <utility>

#include "sched/policy/registry.h"

namespace twin::testing {
namespace {

DrawnPolicy DrawTriton(Random& random, std::int32_t tokens, bool padded, bool copies) {
  DrawnPolicy drawn;
  TritonConfig config;
  config.max_batch_size = Draw(random, 1, 6);
  for (int sizes = Draw(random, 0, 2); sizes > 0; --sizes) {
    config.preferred_batch_size.push_back(
        static_cast<std::uint32_t>(Draw(random, 1, config.max_batch_size)));
  }
  if (random.UnitReal() < 0.7) config.max_queue_delay_microseconds = Draw(random, 0, 1);
  config.instance_count = copies ? Draw(random, 2, 4) : 1;
  config.padded = padded;
  if (random.UnitReal() < 0.5) {
    config.priority_levels = Draw(random, 1, 4);
    config.default_priority_level = Draw(random, 1, config.priority_levels);
    drawn.priorities = true;
  }
  if (!padded) {
    config.max_model_len = drawn.context_tokens = DrawContext(random, tokens);
  }
  drawn.config = config;
  return drawn;
}

DrawnPolicy DrawLightllm(Random& random, std::int32_t tokens) {
  DrawnPolicy drawn;
  LightllmConfig config;
  config.running_max_req_size = Draw(random, 1, 8);
  config.batch_max_tokens = Draw(random, 0, tokens);
  config.max_waiting_iters = Draw(random, 0, 12);
  config.max_model_len = drawn.context_tokens = DrawContext(random, tokens);
  drawn.config = config;
  return drawn;
}

// Alone it prefills and decodes as it does where a request is computed again.
DrawnPolicy DrawDistServe(Random& random, std::int32_t tokens, std::int32_t stages) {
  DrawnPolicy drawn;
  DistServeConfig config;
  config.context_max_batch_size = Draw(random, 1, 8);
  config.context_max_tokens_per_batch = Draw(random, 1, tokens);
  config.decoding_max_batch_size = Draw(random, 1, 8);
  config.decoding_max_tokens_per_batch = Draw(random, 1, 8);
  config.waiting_block_prop_threshold = random.UniformReal(0.01, 1.0);
  config.pipeline_parallel_size = stages;
  config.max_model_len = drawn.context_tokens = DrawContext(random, tokens);
  drawn.host_blocks = Draw(random, 0, 30);
  drawn.config = config;
  return drawn;
}

DrawnPolicy DrawSplitwise(Random& random, std::int32_t tokens) {
  DrawnPolicy drawn;
  SplitwiseConfig config;
  config.max_batch_size = Draw(random, 1, 8);
  config.max_batch_tokens = Draw(random, 1, tokens);
  config.max_preemptions = Draw(random, 0, 6);
  config.max_model_len = drawn.context_tokens = DrawContext(random, tokens);
  drawn.config = config;
  return drawn;
}

DrawnPolicy DrawTrtllm(Random& random, std::int32_t tokens, TrtllmConfig::Capacity capacity,
                       TrtllmConfig::Chunking chunking, bool speculates) {
  DrawnPolicy drawn;
  TrtllmConfig config;
  config.capacity_scheduler_policy = capacity;
  config.context_chunking_policy = chunking;
  config.max_batch_size = Draw(random, 1, 8);
  config.max_num_tokens = Draw(random, 8, tokens);
  config.chunk_unit_size = Draw(random, 1, 8);
  config.max_seq_len = drawn.context_tokens = DrawContext(random, tokens);
  if (speculates) {
    config.speculation = {.method = SpecMethod{static_cast<std::uint8_t>(Draw(random, 0, 2))},
                          .num_speculative_tokens = Draw(random, 1, 6)};
  }
  if (random.UnitReal() < 0.3) {
    config.batch_wait_timeout_iters = Draw(random, 1, 10);
    config.batch_wait_max_tokens_ratio = random.UniformReal(0.1, 1.0);
  }
  drawn.config = config;
  return drawn;
}

void AddTrtllmModes(std::vector<PolicyMode>& modes) {
  using Capacity = TrtllmConfig::Capacity;
  using Chunking = TrtllmConfig::Chunking;
  constexpr std::pair<const char*, Capacity> kCapacities[] = {
      {"no_evict", Capacity::kGuaranteedNoEvict},
      {"max_utilization", Capacity::kMaxUtilization},
      {"static", Capacity::kStaticBatch}};
  constexpr std::pair<const char*, Chunking> kChunkings[] = {
      {"", Chunking::kNone},
      {"_in_order", Chunking::kFirstComeFirstServed},
      {"_equal", Chunking::kEqualProgress}};
  for (const auto& [capacity_name, capacity] : kCapacities) {
    for (const auto& [chunking_name, chunking] : kChunkings) {
      for (const bool speculates : {false, true}) {
        if (speculates && chunking == Chunking::kEqualProgress) continue;
        modes.push_back({std::string("trtllm_") + capacity_name + chunking_name +
                             (speculates ? "_speculative" : ""),
                         [capacity = capacity, chunking = chunking, speculates](
                             Random& random, std::int32_t tokens) {
                           return DrawTrtllm(random, tokens, capacity, chunking, speculates);
                         }});
      }
    }
  }
}

struct SglangMode {
  bool radix = false;
  bool chunked = false;
  bool mixed = false;
  bool overlap = false;
  bool priority = false;
  bool windows = false;
  SglangConfig::Order order = SglangConfig::Order::kFcfs;
};

DrawnPolicy DrawSglang(Random& random, std::int32_t tokens, const SglangMode& mode) {
  DrawnPolicy drawn;
  SglangConfig config;
  config.schedule_policy = mode.order;
  config.radix_cache = drawn.shares_prefixes = mode.radix;
  config.chunked_prefill_size = mode.chunked ? Draw(random, 16, 40) : -1;  // >= a block
  config.enable_mixed_chunk = mode.mixed;
  config.overlap = mode.overlap;
  config.max_prefill_tokens = Draw(random, 1, tokens);
  config.max_running_requests = Draw(random, 1, 8);
  config.prefill_max_requests = Draw(random, 0, 3);
  config.context_length = drawn.context_tokens = DrawContext(random, tokens);
  config.schedule_conservativeness = random.UniformReal(0.0, 1.5);
  config.new_token_ratio_decay_steps = Draw(random, 1, 50);
  config.retract_decode_steps = Draw(random, 0, 20);
  config.clip_max_new_tokens = Draw(random, 1, 30);
  config.in_batch_check_threshold = Draw(random, -1, 8);
  config.in_batch_deprioritize_threshold = Draw(random, 1, 8);
  config.enable_priority_scheduling = drawn.priorities = mode.priority;
  config.schedule_low_priority_values_first = random.UnitReal() < 0.5;
  config.priority_preemption = random.UnitReal() < 0.7;
  config.priority_scheduling_preemption_threshold = Draw(random, 0, 1);
  if (mode.priority && random.UnitReal() < 0.5) {
    config.retraction_policy = SglangConfig::Retraction::kPriority;
  }
  if (mode.windows) {
    config.window = Draw(random, 1, tokens / 2);
    config.swa_full_tokens_ratio = random.UniformReal(0.1, 1.0);
    config.swa_eviction_interval = Draw(random, 1, 8);
    config.release_prefill_swa = random.UnitReal() < 0.5;
    config.free_out_of_window_slots = random.UnitReal() < 0.7;
  }
  if (random.UnitReal() < 0.3) config.scheduler_recv_interval = Draw(random, 2, 12);
  drawn.config = config;
  return drawn;
}

void AddSglangModes(std::vector<PolicyMode>& modes) {
  const auto add = [&](const std::string& name, const SglangMode& mode) {
    modes.push_back({"sglang_" + name, [mode](Random& random, std::int32_t tokens) {
                       return DrawSglang(random, tokens, mode);
                     }});
  };
  using Order = SglangConfig::Order;
  add("fcfs", {});
  add("lof_chunked", {.chunked = true, .order = Order::kLof});
  add("radix_fcfs", {.radix = true});
  add("radix_lpm_chunked", {.radix = true, .chunked = true, .order = Order::kLpm});
  add("mixed", {.radix = true, .chunked = true, .mixed = true});
  add("priority", {.radix = true, .chunked = true, .priority = true});
  add("overlap", {.overlap = true});
  add("overlap_radix", {.radix = true, .chunked = true, .overlap = true});
  add("overlap_mixed_priority",
      {.radix = true, .chunked = true, .mixed = true, .overlap = true, .priority = true});
  add("windows", {.chunked = true, .windows = true});
  add("windows_radix", {.radix = true, .chunked = true, .windows = true});
  add("windows_radix_whole_prompts", {.radix = true, .windows = true});
  add("windows_overlap", {.chunked = true, .overlap = true, .windows = true});
  add("windows_overlap_mixed_priority", {.radix = true,
                                         .chunked = true,
                                         .mixed = true,
                                         .overlap = true,
                                         .priority = true,
                                         .windows = true});
}

}  // namespace

void AddServerModes(std::vector<PolicyMode>& modes) {
  const auto add = [&](const std::string& name, auto draw) { modes.push_back({name, draw}); };
  add("triton_padded", [](Random& r, std::int32_t t) { return DrawTriton(r, t, true, false); });
  add("triton_trimmed", [](Random& r, std::int32_t t) { return DrawTriton(r, t, false, false); });
  add("triton_copies", [](Random& r, std::int32_t t) { return DrawTriton(r, t, true, true); });
  add("lightllm", DrawLightllm);
  add("distserve", [](Random& r, std::int32_t t) { return DrawDistServe(r, t, 1); });
  add("splitwise", DrawSplitwise);
  add("distserve_pipeline", [](Random& r, std::int32_t t) { return DrawDistServe(r, t, 3); });
  AddTrtllmModes(modes);
  AddSglangModes(modes);
}

}  // namespace twin::testing
