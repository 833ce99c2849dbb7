#include "tests/support/hostile_orders.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "core/check.h"

namespace twin::testing {
namespace {

using Kind = OrderConfig::Kind;

struct NamedOrder {
  const char* name;
  OrderConfig order;
};

std::vector<NamedOrder> Orders() {
  return {{"_ageing", {.kind = Kind::kPriority, .ageing = Duration{5}}},
          {"_sjf", {.kind = Kind::kSjf}},
          {"_srpt", {.kind = Kind::kSrpt}},
          {"_vtc", {.kind = Kind::kVtc, .shares = {.tenant_shares = {1, 3}}}},
          {"_edf",
           {.kind = Kind::kEdf,
            .tiers = {{.ttft = Duration{5}, .tbt = Duration{2}}, {.ttlt = Duration{60}}},
            .token_time = Duration{1}}}};
}

constexpr std::string_view kCores[] = {"vllm_v1_033",
                                       "vllm_v1_0151_async",
                                       "vllm_v1_033_default",
                                       "vllm_v1_033_pipeline",
                                       "orca_request_1",
                                       "sarathi",
                                       "tgi_v2",
                                       "tgi_v3_prefix"};

DrawnPolicy Ordered(DrawnPolicy drawn, const OrderConfig& order) {
  drawn.priorities = true;
  std::visit(
      [&](auto& config) {
        if constexpr (requires { config.order; }) config.order = order;
      },
      drawn.config);
  return drawn;
}

}  // namespace

void AddOrderModes(std::vector<PolicyMode>& modes) {
  for (const std::string_view core : kCores) {
    const auto found = std::find_if(modes.begin(), modes.end(),
                                    [core](const PolicyMode& mode) { return mode.name == core; });
    CHECK(found != modes.end());
    const PolicyMode plain = *found;
    for (const NamedOrder& named : Orders()) {
      if (named.order.preempts() && core.substr(0, 7) != VllmV1Config::kName) continue;
      modes.push_back(
          {plain.name + named.name, [plain, named](Random& random, std::int32_t tokens) {
             return Ordered(plain.draw(random, tokens), named.order);
           }});
    }
  }
}

}  // namespace twin::testing
