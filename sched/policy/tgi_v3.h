// Text Generation Inference, version 3: new prompts join the running batch, in chunks.
//
// TgiRouter (sched/policy/tgi.h) with the memory rule of version 3: the router itself hands out
// blocks, for the prompt and the output limit less one token, and the first block is kept for
// health checks. With prefill_chunking a step mixes decodes with prompts, of which the last one is
// cut to the token budget; the queue is looked at before every other step. Without it, prefills
// interrupt the running batch as in version 2.
// With prefix_caching the full blocks of a prompt enter the cache when its request ends; outputs
// do not.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "sched/policy/case_name.h"
#include "sched/policy/context_field.h"
#include "sched/policy/order_config.h"
#include "sched/policy/tgi.h"

namespace twin {

struct TgiV3Config {
  static constexpr const char* kName = "tgi_v3";

  std::int32_t max_batch_prefill_tokens = 4096;  // tokens of a step that new prompts may fill
  // Blocks of the batch, in tokens; 0 = what the KV cache holds (TGI's warm-up).
  std::int32_t max_batch_total_tokens = 0;
  bool prefill_chunking = true;
  bool prefix_caching = true;  // only with prefill_chunking
  // Only without prefill_chunking:
  std::int32_t max_batch_size = 0;       // requests; 0 = no limit
  double waiting_served_ratio = 0.3;     // waiting per running request that interrupt the batch
  std::int32_t max_waiting_tokens = 20;  // decodes after which any request interrupts the batch
  std::int32_t max_total_tokens = 0;     // prompt + output of one request; 0 = the model's context
  std::int32_t max_concurrent_requests = 0;  // waiting or running; more are refused; 0 = no limit
  std::optional<OrderConfig> order = {};     // of admission, not TGI's

  [[nodiscard]] TgiRouterOptions Options() const;
  static constexpr ContextField kContextField = {"max_total_tokens",
                                                 &TgiV3Config::max_total_tokens};

  [[nodiscard]] PolicyTraits Traits() const;
  void Validate() const;
  static std::span<const CaseName> CaseNames();
  bool operator==(const TgiV3Config&) const = default;
};

class TgiV3Policy final : public TgiRouter {
 public:
  explicit TgiV3Policy(const TgiV3Config& config);
};

}  // namespace twin
