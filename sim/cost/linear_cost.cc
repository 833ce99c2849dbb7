#include "sim/cost/linear_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "core/input_error.h"

namespace twin::sim {
namespace {

constexpr std::string_view kName = "cost.linear";

void Validate(const LinearCostConfig& c) {
  struct Field {
    const char* name;
    double value;
  };
  for (const Field& field : {
           Field{"host_s", c.host_s},
           Field{"host_per_item_s", c.host_per_item_s},
           Field{"base_s", c.base_s},
           Field{"per_prefill_token_s", c.per_prefill_token_s},
           Field{"per_decode_item_s", c.per_decode_item_s},
           Field{"per_decode_context_token_s", c.per_decode_context_token_s},
           Field{"per_attention_pair_s", c.per_attention_pair_s},
           Field{"swap_latency_s", c.swap_latency_s},
           Field{"per_swapped_block_s", c.per_swapped_block_s},
       }) {
    if (std::isfinite(field.value) && field.value >= 0) continue;
    throw InputError(InputError::Kind::kUsage, fmt::format("{}.{}", kName, field.name),
                     fmt::format("is {}; allowed: 0 or more", field.value));
  }
  if (c.base_s + c.per_prefill_token_s + c.per_decode_item_s > 0) return;
  throw InputError(InputError::Kind::kUsage, std::string(kName),
                   "base_s, per_prefill_token_s and per_decode_item_s are all 0; allowed: at least "
                   "one of them above 0");
}

}  // namespace

LinearCost::LinearCost(const LinearCostConfig& config, int stages)
    : config_(config), swap_(config.swap_latency_s, config.per_swapped_block_s), stages_(stages) {
  Validate(config);
}

Duration LinearCost::HostTime(const StepPlan& plan) const {
  const auto items = static_cast<double>(plan.work.size());
  return CostDuration(kName, config_.host_s + config_.host_per_item_s * items);
}

double LinearCost::DeviceSeconds(const StepTotals& totals) const {
  const auto padding = static_cast<double>(totals.padding_tokens);
  const double per_padding =
      totals.prefill_items > 0 ? config_.per_prefill_token_s : config_.per_decode_item_s;
  return config_.base_s + config_.per_prefill_token_s * static_cast<double>(totals.prefill_tokens) +
         config_.per_decode_item_s * static_cast<double>(totals.decode_items) +
         config_.per_decode_context_token_s * static_cast<double>(totals.decode_context_tokens) +
         config_.per_attention_pair_s * static_cast<double>(totals.prefill_attention_pairs) +
         per_padding * padding;
}

void LinearCost::DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) const {
  double seconds = swap_.Seconds(plan);
  if (plan.totals.tokens() > 0) seconds += DeviceSeconds(plan.totals) / stages_;
  std::fill(stage_times.begin(), stage_times.end(), CostDuration(kName, seconds));
}

}  // namespace twin::sim
