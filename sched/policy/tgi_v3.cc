#include "sched/policy/tgi_v3.h"

#include "sched/policy/field_check.h"

namespace twin {
namespace {

constexpr RenamedParameter kTgiV3Parameters[] = {
    {"version", "", "3"}, {"support_chunking", "prefill_chunking"}, {"speculate", "", "0"}};
constexpr CaseName kTgiV3CaseNames[] = {
    {.name = "tgi", .parameters = R"({"prefix_caching": false})", .renamed = kTgiV3Parameters},
    {.name = "tgi_v3", .renamed = kTgiV3Parameters}};

}  // namespace

std::span<const CaseName> TgiV3Config::CaseNames() { return kTgiV3CaseNames; }

void TgiV3Config::Validate() const {
  RequireAtLeast("tgi_v3.max_batch_prefill_tokens", max_batch_prefill_tokens, 1);
  RequireAtLeast("tgi_v3.max_batch_total_tokens", max_batch_total_tokens, 0);
  RequireField(!prefix_caching || prefill_chunking, "tgi_v3.prefix_caching", prefix_caching,
               "must be false without prefill_chunking");
  RequireAtLeast("tgi_v3.max_batch_size", max_batch_size, 0);
  RequireRatio("tgi_v3.waiting_served_ratio", waiting_served_ratio);
  RequireAtLeast("tgi_v3.max_waiting_tokens", max_waiting_tokens, 0);
  RequireAtLeast("tgi_v3.max_total_tokens", max_total_tokens, 0);
}

void TgiV3Config::ResolveContext(std::int32_t model_tokens) {
  if (max_total_tokens == 0) max_total_tokens = model_tokens;
}

void TgiV3Config::ValidateContext(std::int32_t model_tokens) const {
  RequireWithinModel("tgi_v3.max_total_tokens", max_total_tokens, model_tokens);
}

PolicyTraits TgiV3Config::Traits() const {
  PolicyTraits traits;
  traits.name = kName;
  traits.sequences_per_step_max = prefill_chunking ? 0 : max_batch_size;
  traits.preempts = false;
  traits.caches_prefixes = prefix_caching;
  traits.publishes_at_end = prefix_caching;
  traits.memory_rule = "tgi";
  traits.sized_for_tokens = max_batch_prefill_tokens;
  traits.context_tokens_max = max_total_tokens;
  traits.outputs_end_at_context = true;
  traits.step_engine = "tgis";
  return traits;
}

TgiV3Policy::TgiV3Policy(const TgiV3Config& config)
    : TgiRouter({.allocates_blocks = true,
                 .chunks_prefills = config.prefill_chunking,
                 .caches_prefixes = config.prefix_caching,
                 .max_batch_prefill_tokens = config.max_batch_prefill_tokens,
                 .max_batch_total_tokens = config.max_batch_total_tokens,
                 .max_batch_size = config.max_batch_size,
                 .waiting_served_ratio = config.waiting_served_ratio,
                 .max_waiting_tokens = config.max_waiting_tokens,
                 .max_total_tokens = config.max_total_tokens},
                config.Traits()) {}

}  // namespace twin
