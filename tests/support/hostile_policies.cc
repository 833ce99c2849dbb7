#include "tests/support/hostile_policies.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "sched/policy/registry.h"
#include "tests/support/hostile_orders.h"
#include "tests/support/hostile_servers.h"

namespace twin::testing {
namespace {

double DrawWatermark(Random& random) {
  return random.UnitReal() < 0.5 ? 0.0 : random.UniformReal(0.0, 0.3);
}

DrawnPolicy DrawStatic(Random& random, std::int32_t tokens, bool padded) {
  DrawnPolicy drawn;
  StaticConfig config;
  config.padded = padded;
  config.max_batch_size = Draw(random, 1, 6);
  if (!padded) {
    config.max_model_len = drawn.context_tokens = DrawContext(random, tokens);
  }
  drawn.config = config;
  return drawn;
}

DrawnPolicy DrawOrca(Random& random, std::int32_t tokens, OrcaConfig::Reservation reservation,
                     std::int32_t workers) {
  DrawnPolicy drawn;
  OrcaConfig config;
  config.reservation = reservation;
  config.n_workers = workers;
  config.max_bs = Draw(random, 1, 8);
  config.prefills_first = random.UnitReal() < 0.5;
  if (reservation == OrcaConfig::Reservation::kModel) {
    config.max_model_len = drawn.context_tokens = DrawContext(random, tokens);
  }
  drawn.config = config;
  return drawn;
}

DrawnPolicy DrawV0(Random& random, std::int32_t tokens, bool chunked, bool swap, bool priority,
                   bool speculates) {
  DrawnPolicy drawn;
  VllmV0Config config;
  config.max_num_seqs = Draw(random, 1, 8);
  config.max_model_len = drawn.context_tokens = DrawContext(random, tokens);
  config.max_num_batched_tokens =
      chunked ? Draw(random, config.max_num_seqs, tokens)
              : Draw(random, std::max(config.max_num_seqs, config.max_model_len), 2 * tokens);
  config.watermark = DrawWatermark(random);
  config.enable_chunked_prefill = chunked;
  if (swap) {
    config.preemption_mode = VllmV0Config::PreemptionMode::kSwap;
    drawn.host_blocks = Draw(random, 0, 30);
  }
  if (priority) config.policy = QueueOrder::kPriority;
  drawn.priorities = priority;
  if (speculates) {
    config.speculation.method = SpecMethod{static_cast<std::uint8_t>(Draw(random, 0, 2))};
    config.speculation.num_speculative_tokens = Draw(random, 1, 6);
    if (random.UnitReal() < 0.3) config.speculative_disable_by_batch_size = Draw(random, 2, 6);
  }
  drawn.config = config;
  return drawn;
}

struct V1Mode {
  VllmV1Release release = VllmV1Release::k0_33_0;
  bool priority = false;
  bool async = false;
  bool prefix = false;
  bool threshold = false;
  bool unchunked = false;
  bool watermark = false;
  bool cadence = false;
  std::int32_t stages = 1;
  bool speculates = false;
};

DrawnPolicy DrawV1(Random& random, std::int32_t tokens, const V1Mode& mode) {
  DrawnPolicy drawn;
  VllmV1Config config;
  config.release = mode.release;
  config.max_num_seqs = Draw(random, 1, 8);
  config.max_model_len = drawn.context_tokens = DrawContext(random, tokens);
  config.enable_chunked_prefill = !mode.unchunked;
  config.max_num_batched_tokens =
      mode.unchunked ? Draw(random, std::max(config.max_num_seqs, config.max_model_len), 2 * tokens)
                     : Draw(random, config.max_num_seqs, tokens);
  if (mode.priority) config.policy = QueueOrder::kPriority;
  drawn.priorities = mode.priority;
  config.async_scheduling = mode.async;
  config.enable_prefix_caching = drawn.shares_prefixes = mode.prefix;
  config.pipeline_parallel_size = mode.stages;
  config.scheduler_reserve_full_isl = random.UnitReal() < 0.7;
  if (mode.threshold) {
    config.long_prefill_token_threshold = Draw(random, 1, 8);
    config.long_prefill_token_threshold_adaptive = random.UnitReal() < 0.5;
  }
  if (mode.watermark) {
    config.watermark = random.UniformReal(0.0, 0.4);
    config.max_num_active_seqs = Draw(random, 1, config.max_num_seqs);
  }
  if (mode.cadence) config.prefill_schedule_interval = Draw(random, 2, 5);
  if (mode.speculates) {
    config.speculation.method =
        Draw(random, 0, 1) == 0 ? SpecMethod::kNgram : SpecMethod::kDraftModel;
    if (!mode.prefix && random.UnitReal() < 0.3) config.speculation.method = SpecMethod::kEagle;
    config.speculation.num_speculative_tokens = Draw(random, 1, 6);
    // One request, padded to verify as many drafts as others, fits.
    const std::int32_t least = 2 + config.speculation.num_speculative_tokens;
    config.max_num_batched_tokens = std::max(config.max_num_batched_tokens, least);
    config.max_num_scheduled_tokens = random.UnitReal() < 0.5 ? Draw(random, least, 2 * least) : 0;
  }
  drawn.config = config;
  return drawn;
}

DrawnPolicy DrawSarathi(Random& random, std::int32_t tokens, std::int32_t stages, bool dynamic) {
  DrawnPolicy drawn;
  SarathiConfig config;
  config.chunk_size = Draw(random, 1, 24);
  config.max_num_seqs = Draw(random, 1, 8);
  config.max_model_len = drawn.context_tokens = DrawContext(random, tokens);
  config.watermark = DrawWatermark(random);
  config.pipeline_parallel_size = stages;
  if (dynamic) {
    config.enable_dynamic_chunking_schedule = true;
    config.low_chunk_size = Draw(random, 1, 8);
    config.high_chunk_size = Draw(random, config.low_chunk_size, 40);
    config.chunk_schedule_stages = Draw(random, 1, 4);
    config.chunk_schedule_max_tokens = Draw(random, config.chunk_schedule_stages, 64);
  }
  drawn.config = config;
  return drawn;
}

DrawnPolicy DrawSplitFuse(Random& random, std::int32_t tokens) {
  DrawnPolicy drawn;
  SplitFuseConfig config;
  config.max_ragged_batch_size = Draw(random, 1, 24);
  config.max_ragged_sequence_count = Draw(random, 1, 8);
  config.max_length = drawn.context_tokens = DrawContext(random, tokens);
  drawn.config = config;
  return drawn;
}

DrawnPolicy DrawTgiV2(Random& random, std::int32_t tokens) {
  DrawnPolicy drawn;
  TgiV2Config config;
  config.max_batch_prefill_tokens = Draw(random, 1, tokens);
  if (random.UnitReal() < 0.5) config.max_batch_total_tokens = Draw(random, 1, 2 * tokens);
  config.max_batch_size = Draw(random, 0, 8);
  config.waiting_served_ratio = random.UniformReal(0.0, 2.0);
  config.max_waiting_tokens = Draw(random, 0, 20);
  config.max_total_tokens = drawn.context_tokens = DrawContext(random, tokens);
  if (random.UnitReal() < 0.3) config.max_concurrent_requests = Draw(random, 1, 10);
  drawn.config = config;
  return drawn;
}

DrawnPolicy DrawTgiV3(Random& random, std::int32_t tokens, bool chunks, bool caches) {
  DrawnPolicy drawn;
  TgiV3Config config;
  config.max_batch_prefill_tokens = Draw(random, 1, tokens);
  if (random.UnitReal() < 0.5) config.max_batch_total_tokens = Draw(random, 1, 2 * tokens);
  config.prefill_chunking = chunks;
  config.prefix_caching = drawn.shares_prefixes = caches;
  config.max_batch_size = Draw(random, 0, 8);
  config.waiting_served_ratio = random.UniformReal(0.0, 2.0);
  config.max_waiting_tokens = Draw(random, 0, 20);
  config.max_total_tokens = drawn.context_tokens = DrawContext(random, tokens);
  if (random.UnitReal() < 0.3) config.max_concurrent_requests = Draw(random, 1, 10);
  drawn.config = config;
  return drawn;
}

DrawnPolicy DrawShip(Random& random, std::int32_t tokens, std::int32_t slots,
                     ShipConfig::PromptSlots prompt_slots) {
  DrawnPolicy drawn;
  ShipConfig config;
  config.pipeline_parallel_size = slots;
  config.fill_tokens = Draw(random, 1, 24);
  config.prompt_slots = prompt_slots;
  config.max_num_seqs = Draw(random, 1, 12);
  config.max_model_len = drawn.context_tokens = DrawContext(random, tokens);
  config.watermark = DrawWatermark(random);
  drawn.config = config;
  return drawn;
}

void AddShipModes(std::vector<PolicyMode>& modes) {
  using PromptSlots = ShipConfig::PromptSlots;
  const auto add = [&](const std::string& name, std::int32_t slots, PromptSlots prompt_slots) {
    modes.push_back({name, [slots, prompt_slots](Random& random, std::int32_t tokens) {
                       return DrawShip(random, tokens, slots, prompt_slots);
                     }});
  };
  add("ship_1", 1, PromptSlots::kAll);
  add("ship_2", 2, PromptSlots::kAll);
  add("ship_5", 5, PromptSlots::kAll);
  add("ship_own_3", 3, PromptSlots::kOwn);
}

void AddV1Modes(std::vector<PolicyMode>& modes) {
  const auto add = [&](const std::string& name, const V1Mode& mode) {
    modes.push_back({"vllm_v1_" + name, [mode](Random& random, std::int32_t tokens) {
                       return DrawV1(random, tokens, mode);
                     }});
  };
  constexpr auto k0151 = VllmV1Release::k0_15_1;
  add("0151", {.release = k0151});
  add("0151_priority", {.release = k0151, .priority = true});
  add("0151_prefix", {.release = k0151, .prefix = true});
  add("0151_threshold", {.release = k0151, .threshold = true});
  add("0151_async", {.release = k0151, .async = true});
  add("0151_async_priority_prefix",
      {.release = k0151, .priority = true, .async = true, .prefix = true});
  add("0190_async_prefix", {.release = VllmV1Release::k0_19_0, .async = true, .prefix = true});
  add("0240_async_priority_prefix",
      {.release = VllmV1Release::k0_24_0, .priority = true, .async = true, .prefix = true});
  add("0280_speculative", {.release = VllmV1Release::k0_28_0, .speculates = true});
  add("0310_threshold", {.release = VllmV1Release::k0_31_0, .threshold = true});
  add("033", {});
  add("033_priority", {.priority = true});
  add("033_priority_prefix", {.priority = true, .prefix = true});
  add("033_prefix", {.prefix = true});
  add("033_threshold", {.threshold = true});
  add("033_unchunked", {.unchunked = true});
  add("033_watermark", {.watermark = true});
  add("033_cadence", {.cadence = true});
  add("033_async", {.async = true});
  add("033_default", {.async = true, .prefix = true});
  add("033_async_priority_prefix", {.priority = true, .async = true, .prefix = true});
  add("033_async_everything", {.priority = true,
                               .async = true,
                               .prefix = true,
                               .threshold = true,
                               .watermark = true,
                               .cadence = true});
  add("0151_speculative", {.release = k0151, .speculates = true});
  add("0151_speculative_async_prefix",
      {.release = k0151, .async = true, .prefix = true, .speculates = true});
  add("033_speculative", {.speculates = true});
  add("033_speculative_prefix", {.prefix = true, .speculates = true});
  add("033_speculative_priority", {.priority = true, .threshold = true, .speculates = true});
  add("033_speculative_unchunked", {.unchunked = true, .watermark = true, .speculates = true});
  add("033_speculative_async", {.async = true, .speculates = true});
  add("033_speculative_async_priority_prefix",
      {.priority = true, .async = true, .prefix = true, .cadence = true, .speculates = true});
  add("033_speculative_pipeline", {.prefix = true, .stages = 2, .speculates = true});
  add("033_pipeline", {.stages = 2});
  add("033_pipeline_async", {.async = true, .stages = 2});
  add("033_pipeline_async_priority_prefix",
      {.priority = true, .async = true, .prefix = true, .threshold = true, .stages = 4});
  add("033_speculative_pipeline_async", {.async = true, .stages = 3, .speculates = true});
  add("033_pipeline_priority_prefix", {.priority = true, .prefix = true, .stages = 2});
}

bool HasMode(std::vector<PolicyMode>& modes, std::string_view policy) {
  return std::any_of(modes.begin(), modes.end(), [policy](PolicyMode& mode) {
    Random random(1, mode.name);
    return TraitsOf(mode.draw(random, 100).config).name == policy;
  });
}

// Policies of the registry that have no modes above run with their defaults.
void AddDefaultModes(std::vector<PolicyMode>& modes) {
  for (const PolicyConfig& config : DefaultPolicyConfigs()) {
    const std::string_view policy = TraitsOf(config).name;
    if (HasMode(modes, policy)) continue;
    modes.push_back(DefaultMode(config));
  }
}

std::vector<PolicyMode> MakeModes() {
  std::vector<PolicyMode> modes;
  const auto add = [&](const std::string& name, auto draw) { modes.push_back({name, draw}); };
  using Reservation = OrcaConfig::Reservation;
  add("static_padded", [](Random& r, std::int32_t t) { return DrawStatic(r, t, true); });
  add("static_trimmed", [](Random& r, std::int32_t t) { return DrawStatic(r, t, false); });
  for (const std::int32_t workers : {1, 4}) {
    const std::string suffix = "_" + std::to_string(workers);
    add("orca_request" + suffix, [workers](Random& r, std::int32_t t) {
      return DrawOrca(r, t, Reservation::kRequest, workers);
    });
    add("orca_model" + suffix, [workers](Random& r, std::int32_t t) {
      return DrawOrca(r, t, Reservation::kModel, workers);
    });
  }
  for (const bool chunked : {false, true}) {
    for (const bool swap : {false, true}) {
      for (const bool priority : {false, true}) {
        if (chunked && priority) continue;
        const std::string name = std::string("vllm_v0") + (chunked ? "_chunked" : "") +
                                 (swap ? "_swap" : "") + (priority ? "_priority" : "");
        for (const bool speculates : {false, true}) {
          add(name + (speculates ? "_speculative" : ""), [=](Random& r, std::int32_t t) {
            return DrawV0(r, t, chunked, swap, priority, speculates);
          });
        }
      }
    }
  }
  AddV1Modes(modes);
  add("sarathi", [](Random& r, std::int32_t t) { return DrawSarathi(r, t, 1, false); });
  add("sarathi_pipeline", [](Random& r, std::int32_t t) { return DrawSarathi(r, t, 2, false); });
  using Scheduler = SarathiConfig::Scheduler;
  add("sarathi_vllm", [](Random& r, std::int32_t t) {
    DrawnPolicy drawn = DrawSarathi(r, t, 1, false);
    drawn.config.Get<SarathiConfig>().scheduler = Scheduler::kVllm;
    return drawn;
  });
  add("sarathi_simple_chunking", [](Random& r, std::int32_t t) {
    DrawnPolicy drawn = DrawSarathi(r, t, 1, false);
    drawn.config.Get<SarathiConfig>().scheduler = Scheduler::kSimpleChunking;
    return drawn;
  });
  add("sarathi_dynamic", [](Random& r, std::int32_t t) { return DrawSarathi(r, t, 1, true); });
  add("splitfuse", DrawSplitFuse);
  add("tgi_v2", DrawTgiV2);
  add("tgi_v3", [](Random& r, std::int32_t t) { return DrawTgiV3(r, t, true, false); });
  add("tgi_v3_prefix", [](Random& r, std::int32_t t) { return DrawTgiV3(r, t, true, true); });
  add("tgi_v3_unchunked", [](Random& r, std::int32_t t) { return DrawTgiV3(r, t, false, false); });
  AddShipModes(modes);
  AddServerModes(modes);
  AddDeadlineModes(modes);
  AddDefaultModes(modes);
  AddOrderModes(modes);
  return modes;
}

}  // namespace

PolicyMode DefaultMode(const PolicyConfig& config) {
  return {std::string(TraitsOf(config).name), [config](Random& random, std::int32_t tokens) {
            DrawnPolicy drawn{.config = config};
            drawn.context_tokens = DrawContext(random, tokens);
            ResolveContext(drawn.config, drawn.context_tokens);
            for (std::int64_t zeros = random.UniformInt(2, 10); zeros > 2; --zeros) {
              drawn.tick *= drawn.tick == Duration{1} ? 1000 : 10;
            }
            return drawn;
          }};
}

const std::vector<PolicyMode>& PolicyModes() {
  static const std::vector<PolicyMode> modes = MakeModes();
  return modes;
}

}  // namespace twin::testing
