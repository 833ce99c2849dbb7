#include "sched/policy/tgi_v2.h"

#include "sched/policy/field_check.h"

namespace twin {
namespace {

constexpr RenamedParameter kTgiV2Parameters[] = {
    {"version", "", "2"}, {"support_chunking", "", "false"}, {"speculate", "", "0"}};
constexpr CaseName kTgiV2CaseNames[] = {{.name = "tgi", .renamed = kTgiV2Parameters},
                                        {.name = "tgi_v2", .renamed = kTgiV2Parameters}};

}  // namespace

std::span<const CaseName> TgiV2Config::CaseNames() { return kTgiV2CaseNames; }

void TgiV2Config::Validate() const {
  RequireAtLeast("tgi_v2.max_batch_prefill_tokens", max_batch_prefill_tokens, 1);
  RequireAtLeast("tgi_v2.max_batch_total_tokens", max_batch_total_tokens, 0);
  RequireAtLeast("tgi_v2.max_batch_size", max_batch_size, 0);
  RequireRatio("tgi_v2.waiting_served_ratio", waiting_served_ratio);
  RequireAtLeast("tgi_v2.max_waiting_tokens", max_waiting_tokens, 0);
  RequireAtLeast("tgi_v2.max_total_tokens", max_total_tokens, 0);
}

void TgiV2Config::ResolveContext(std::int32_t model_tokens) {
  if (max_total_tokens == 0) max_total_tokens = model_tokens;
}

void TgiV2Config::ValidateContext(std::int32_t model_tokens) const {
  RequireWithinModel("tgi_v2.max_total_tokens", max_total_tokens, model_tokens);
}

PolicyTraits TgiV2Config::Traits() const {
  PolicyTraits traits;
  traits.name = kName;
  traits.sequences_per_step_max = max_batch_size;
  traits.preempts = false;
  traits.memory_rule = "tgi";
  traits.sized_for_tokens = max_batch_prefill_tokens;
  traits.context_tokens_max = max_total_tokens;
  traits.outputs_end_at_context = true;
  traits.step_engine = "tgis";
  return traits;
}

TgiV2Policy::TgiV2Policy(const TgiV2Config& config)
    : TgiRouter({.max_batch_prefill_tokens = config.max_batch_prefill_tokens,
                 .max_batch_total_tokens = config.max_batch_total_tokens,
                 .max_batch_size = config.max_batch_size,
                 .waiting_served_ratio = config.waiting_served_ratio,
                 .max_waiting_tokens = config.max_waiting_tokens,
                 .max_total_tokens = config.max_total_tokens},
                config.Traits()) {}

}  // namespace twin
