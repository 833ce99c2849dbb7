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
  if (order) order->ValidateWithoutPreemption(kName);
  RequireField(!prefix_caching || prefill_chunking, "tgi_v3.prefix_caching", prefix_caching,
               "must be false without prefill_chunking");
}

TgiRouterOptions TgiV3Config::Options() const {
  return {.allocates_blocks = true,
          .chunks_prefills = prefill_chunking,
          .caches_prefixes = prefix_caching,
          .max_batch_prefill_tokens = max_batch_prefill_tokens,
          .max_batch_total_tokens = max_batch_total_tokens,
          .max_batch_size = max_batch_size,
          .waiting_served_ratio = waiting_served_ratio,
          .max_waiting_tokens = max_waiting_tokens,
          .max_total_tokens = max_total_tokens,
          .max_concurrent_requests = max_concurrent_requests,
          .order = order};
}

PolicyTraits TgiV3Config::Traits() const { return TgiTraits(kName, Options()); }

TgiV3Policy::TgiV3Policy(const TgiV3Config& config)
    : TgiRouter(config.Options(), config.Traits()) {}

}  // namespace twin
