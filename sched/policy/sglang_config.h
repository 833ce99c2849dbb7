// The parameters of SGLang's scheduler.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/time.h"
#include "sched/policy/case_name.h"
#include "sched/policy/context_field.h"
#include "sched/policy/order_config.h"
#include "sched/policy/policy.h"

namespace twin {

struct SystemOfPolicy;

// Names are SGLang's (server arguments and environment variables, without SGLANG_), except for
// switches that SGLang negates: radix_cache, overlap, priority_preemption.
struct SglangConfig {
  static constexpr const char* kName = "sglang";

  enum class Order : std::uint8_t {
    kFcfs,
    kLpm,  // longest prefix in the tree first
    kLof,  // largest output limit first
  };
  enum class Retraction : std::uint8_t { kLength, kPriority };

  Order schedule_policy = Order::kFcfs;
  bool radix_cache = true;
  std::int32_t chunked_prefill_size = 8192;  // tokens; 0 or -1 = prompts are not divided
  std::int32_t max_prefill_tokens = 16384;   // of a step without chunks; one request may exceed it
  std::int32_t max_running_requests = 2048;
  std::int32_t prefill_max_requests = 0;  // in one prefill step; 0 = no limit
  std::int32_t context_length = 0;        // prompt + output tokens; 0 = the model's
  bool enable_mixed_chunk = false;        // decodes ride along with prefills
  bool overlap = true;                    // the next step is planned while one runs
  double schedule_conservativeness = 1.0;
  double init_new_token_ratio = 0.7;
  double min_new_token_ratio_factor = 0.14;
  std::int32_t new_token_ratio_decay_steps = 600;
  std::int32_t retract_decode_steps = 20;
  std::int32_t clip_max_new_tokens = 4096;  // of the estimate of one request's future output
  std::int32_t in_batch_check_threshold = 32;
  std::int32_t in_batch_deprioritize_threshold = 32;
  bool enable_priority_scheduling = false;
  bool schedule_low_priority_values_first = false;
  bool priority_preemption = true;
  std::int32_t priority_scheduling_preemption_threshold = 10;
  Retraction retraction_policy = Retraction::kLength;
  // Two pools: one for layers that see all tokens, one for layers that see `window` tokens.
  bool hybrid_swa_memory = true;       // false: one pool for all layers, whatever their windows
  std::int32_t window = 0;             // tokens; 0 = the model's, if its layers differ in it
  double swa_full_tokens_ratio = 0.8;  // tokens of the window pool, of those of the other
  std::int32_t swa_eviction_interval = 128;  // tokens that fall behind a window before they go
  bool release_prefill_swa = false;      // requests that have decoded beyond it unlock their prefix
  bool free_out_of_window_slots = true;  // before a request enters the tree
  // No setting of a server, which waits for ever: after this time without any work, a request that
  // the window pool cannot take is refused. At once for a server, and a thousand calls where a step
  // takes a nanosecond (twinserve schedule).
  Duration window_patience{1000};
  // Steps between two looks at new requests; a step with prompts counts 1,000.
  std::int32_t scheduler_recv_interval = 1;
  std::optional<OrderConfig> order = std::nullopt;  // unset: schedule_policy

  // Larger is more important.
  [[nodiscard]] std::int64_t Importance(std::int32_t priority) const {
    return schedule_low_priority_values_first ? -std::int64_t{priority} : priority;
  }
  [[nodiscard]] bool has_window_pool() const { return hybrid_swa_memory && window > 0; }
  [[nodiscard]] bool preempts_by_priority() const {
    return enable_priority_scheduling && priority_preemption;
  }

  static constexpr ContextField kContextField = {"context_length", &SglangConfig::context_length};

  // Takes the window of the model's layers, unless one is given; 0 = they do not differ in it.
  void ResolveWindow(std::int32_t model_window);
  // States of requests lie in slots, and no more requests run than have slots.
  void LimitBySystem(const SystemOfPolicy& system);

  [[nodiscard]] PolicyTraits Traits() const;
  void Validate() const;
  void ValidateOrder() const;
  static std::span<const CaseName> CaseNames();
  bool operator==(const SglangConfig&) const = default;
};

}  // namespace twin
