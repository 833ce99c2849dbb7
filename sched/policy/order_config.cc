#include "sched/policy/order_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "sched/policy/field_check.h"

namespace twin {
namespace {

// arrival + priority * ageing, clamped to the range of the type.
std::int64_t AgedPriority(const Sequence& s, Duration ageing) {
  std::int64_t levels = 0;
  std::int64_t key = 0;
  const bool overflows =
      __builtin_mul_overflow(std::int64_t{s.priority}, ageing.count(), &levels) ||
      __builtin_add_overflow(Nanoseconds(s.arrival), levels, &key);
  if (!overflows) return key;
  return s.priority < 0 ? std::numeric_limits<std::int64_t>::min()
                        : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

bool OrderConfig::reads_predictions() const {
  const auto has_ttlt = [](const ServiceTier& tier) { return tier.ttlt > Duration{0}; };
  return kind == Kind::kSrpt || (kind == Kind::kSjf && size == Size::kOutput) ||
         (kind == Kind::kEdf && std::any_of(tiers.begin(), tiers.end(), has_ttlt));
}

void OrderConfig::Validate(std::string_view policy) const {
  RequireField(ageing >= Duration{0}, fmt::format("{}.order.ageing_s", policy), Seconds(ageing),
               "must be at least 0");
  RequireRatio(fmt::format("{}.order.input_weight", policy), shares.input_weight);
  RequireRatio(fmt::format("{}.order.output_weight", policy), shares.output_weight);
  for (const double share : shares.tenant_shares) {
    RequireField(share >= 1e-6 && share <= 1e6, fmt::format("{}.order.tenant_shares", policy),
                 share, "must be 0.000001 to 1000000");
  }
  RequireField(kind != Kind::kEdf || !tiers.empty(), fmt::format("{}.order.tiers", policy),
               tiers.size(), "must be at least 1 for edf");
  const auto require_time = [&](const char* field, Duration time, Duration most) {
    RequireField(time >= Duration{0} && time <= most, fmt::format("{}.order.{}", policy, field),
                 Seconds(time), fmt::format("must be 0 to {}", Seconds(most)));
  };
  constexpr Duration kLong = std::chrono::seconds(1'000'000);
  constexpr Duration kShort = std::chrono::seconds(1);  // times the tokens of any request
  for (const ServiceTier& tier : tiers) {
    require_time("tiers.ttft_s", tier.ttft, kLong);
    require_time("tiers.tbt_s", tier.tbt, kShort);
    require_time("tiers.ttlt_s", tier.ttlt, kLong);
  }
  require_time("token_time_s", token_time, kShort);
}

void OrderConfig::ValidateWithoutPreemption(std::string_view policy) const {
  Validate(policy);
  RequireField(!preempts(), fmt::format("{}.order.kind", policy), "srpt",
               "must be another order: this policy preempts nobody for a waiting request");
}

void OrderConfig::SetTraits(PolicyTraits& traits) const {
  traits.first_come_first_served &= first_come_first_served();
  traits.reads_predictions |= reads_predictions();
}

TimePoint NextTokenDue(const OrderConfig& order, const Sequence& s) {
  const ServiceTier& tier = order.tiers[std::min<std::size_t>(s.tenant, order.tiers.size() - 1)];
  const std::int32_t generated = s.known - s.prompt_tokens;
  if (tier.ttlt > Duration{0}) {
    return s.arrival + tier.ttlt - order.token_time * (ExpectedOutput(s) - generated);
  }
  return s.arrival + tier.ttft + tier.tbt * generated;
}

std::int32_t ExpectedOutput(const Sequence& s) {
  const std::int32_t most = s.max_output_tokens;
  if (s.predicted_output_tokens < 0) return most;
  const std::int32_t generated = s.known - s.prompt_tokens;
  std::int64_t expected = std::max(s.predicted_output_tokens, 1);
  while (expected <= generated) expected *= 2;
  return static_cast<std::int32_t>(std::min<std::int64_t>(expected, most));
}

std::int64_t OrderKey(const OrderConfig& order, const Sequence& s) {
  using Kind = OrderConfig::Kind;
  switch (order.kind) {
    case Kind::kFcfs:
      return 0;
    case Kind::kPriority:
      return order.ageing > Duration{0} ? AgedPriority(s, order.ageing) : s.priority;
    case Kind::kSjf:
      return order.size == OrderConfig::Size::kPrompt ? s.prompt_tokens : ExpectedOutput(s);
    case Kind::kSrpt:
      return ExpectedOutput(s) - (s.known - s.prompt_tokens);
    case Kind::kVtc:
      return 0;  // FairQueue's
    case Kind::kEdf:
      return Nanoseconds(NextTokenDue(order, s));
  }
  return 0;
}

}  // namespace twin
