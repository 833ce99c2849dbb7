// Text Generation Inference, version 2: prefills interrupt the running batch.
//
// TgiRouter (sched/policy/tgi.h) with the memory rule of version 2: a request needs its prompt and
// its output limit, each rounded up to whole blocks, of max_batch_total_tokens. What the server
// holds for it, and gives back at its end, is less: prompt and output limit, less one token, in
// blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "sched/policy/case_name.h"
#include "sched/policy/context_field.h"
#include "sched/policy/order_config.h"
#include "sched/policy/tgi.h"

namespace twin {

struct TgiV2Config {
  static constexpr const char* kName = "tgi_v2";

  std::int32_t max_batch_prefill_tokens = 4096;  // prompt tokens of one prefill
  // Prompts and output limits of the batch; 0 = what the KV cache holds (TGI's warm-up).
  std::int32_t max_batch_total_tokens = 0;
  std::int32_t max_batch_size = 0;       // requests; 0 = no limit
  double waiting_served_ratio = 0.3;     // waiting per running request that interrupt the batch
  std::int32_t max_waiting_tokens = 20;  // decodes after which any request interrupts the batch
  std::int32_t max_total_tokens = 0;     // prompt + output of one request; 0 = the model's context
  std::int32_t max_concurrent_requests = 0;  // waiting or running; more are refused; 0 = no limit
  std::optional<OrderConfig> order = {};     // of admission, not TGI's

  [[nodiscard]] TgiRouterOptions Options() const;
  static constexpr ContextField kContextField = {"max_total_tokens",
                                                 &TgiV2Config::max_total_tokens};

  [[nodiscard]] PolicyTraits Traits() const;
  void Validate() const;
  static std::span<const CaseName> CaseNames();
  bool operator==(const TgiV2Config&) const = default;
};

class TgiV2Policy final : public TgiRouter {
 public:
  explicit TgiV2Policy(const TgiV2Config& config);
};

}  // namespace twin
