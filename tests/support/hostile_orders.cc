#include "tests/support/hostile_orders.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "core/check.h"
#include "sched/policy/fastserve.h"
#include "sched/policy/registry.h"
#include "sched/policy/sarathi.h"
#include "sched/policy/vllm_v1.h"

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
                                       "vllm_v0",
                                       "vllm_v0_chunked_swap",
                                       "orca_request_1",
                                       "sarathi",
                                       "splitfuse",
                                       "tgi_v2",
                                       "tgi_v3_prefix",
                                       "static_padded",
                                       "static_trimmed",
                                       "triton_padded",
                                       "triton_trimmed",
                                       "lightllm",
                                       "trtllm_no_evict_in_order",
                                       "trtllm_max_utilization",
                                       "trtllm_max_utilization_equal",
                                       "trtllm_max_utilization_speculative",
                                       "trtllm_static",
                                       "sglang_fcfs",
                                       "sglang_radix_fcfs",
                                       "sglang_mixed",
                                       "sglang_overlap_radix"};

DrawnPolicy Ordered(DrawnPolicy drawn, const OrderConfig& order) {
  drawn.priorities = true;
  VisitPolicy(drawn.config, [&](auto& config) {
    if constexpr (requires { config.order; }) config.order = order;
    if constexpr (requires { config.priority_levels; }) config.priority_levels = 0;
  });
  return drawn;
}

DrawnPolicy DrawSlack(Random& random, std::int32_t tokens) {
  const auto draw = [&random](std::int64_t low, std::int64_t high) {
    return static_cast<std::int32_t>(random.UniformInt(low, high));
  };
  SarathiConfig config;
  config.chunk_size = draw(1, 24);
  config.max_num_seqs = draw(1, 8);
  config.max_model_len = draw(std::max(3, tokens / 3), tokens);
  config.watermark = random.UnitReal() < 0.5 ? 0.0 : random.UniformReal(0.0, 0.3);
  config.order = Orders().back().order;
  config.slack_chunking = SlackChunking{.least_chunk_size = draw(1, config.chunk_size),
                                        .safety_factor = random.UniformReal(0.5, 2.0),
                                        .step_time = Duration{draw(0, 3)},
                                        .token_time = Duration{draw(0, 2)},
                                        .context_token_time = Duration{draw(0, 1)},
                                        .relegates = random.UnitReal() < 0.7};
  DrawnPolicy drawn{.config = config, .context_tokens = config.max_model_len};
  drawn.priorities = true;
  return drawn;
}

DrawnPolicy DrawFastServe(Random& random, std::int32_t tokens) {
  const auto draw = [&random](std::int64_t low, std::int64_t high) {
    return static_cast<std::int32_t>(random.UniformInt(low, high));
  };
  FastServeConfig config;
  config.max_batch_size = draw(1, 8);
  config.max_tokens_per_batch = draw(1, tokens);
  config.max_model_len = draw(std::max(3, tokens / 3), tokens);
  config.use_skip_join = random.UnitReal() < 0.7;
  config.base_quantum = Duration{draw(0, 5)};
  config.threshold = random.UniformReal(1.0, 3.0);
  config.num_queues = draw(1, 6);
  config.prefill_time = Duration{draw(0, 3)};
  config.prefill_token_time = Duration{draw(0, 2)};
  config.starvation_period = draw(1, 20);
  config.starvation_threshold = Duration{draw(0, 100)};
  config.proactive_offloading = random.UnitReal() < 0.7;
  config.num_min_free_blocks_threshold = draw(0, 10);
  return {.config = config,
          .context_tokens = config.max_model_len,
          .host_blocks = random.UnitReal() < 0.2 ? 0 : draw(0, 40)};
}

}  // namespace

void AddDeadlineModes(std::vector<PolicyMode>& modes) {
  modes.push_back({"sarathi_slack", DrawSlack});
  modes.push_back({"fastserve", DrawFastServe});
}

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
