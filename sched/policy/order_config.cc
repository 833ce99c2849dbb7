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
  return kind == Kind::kSrpt || (kind == Kind::kSjf && size == Size::kOutput);
}

void OrderConfig::Validate(std::string_view policy) const {
  RequireField(ageing >= Duration{0}, fmt::format("{}.order.ageing_s", policy), Seconds(ageing),
               "must be at least 0");
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
  }
  return 0;
}

}  // namespace twin
