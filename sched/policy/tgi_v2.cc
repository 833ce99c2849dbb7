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
  if (order) order->ValidateWithoutPreemption(kName);
}

TgiRouterOptions TgiV2Config::Options() const {
  return {.max_batch_prefill_tokens = max_batch_prefill_tokens,
          .max_batch_total_tokens = max_batch_total_tokens,
          .max_batch_size = max_batch_size,
          .waiting_served_ratio = waiting_served_ratio,
          .max_waiting_tokens = max_waiting_tokens,
          .max_total_tokens = max_total_tokens,
          .max_concurrent_requests = max_concurrent_requests,
          .order = order};
}

PolicyTraits TgiV2Config::Traits() const { return TgiTraits(kName, Options()); }

TgiV2Policy::TgiV2Policy(const TgiV2Config& config)
    : TgiRouter(config.Options(), config.Traits()) {}

}  // namespace twin
