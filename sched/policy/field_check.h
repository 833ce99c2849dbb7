// Checks of policy parameters. Each throws InputError (usage), "policy.FIELD: is VALUE, ALLOWED".
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/input_error.h"
#include "sched/policy/speculation.h"
#include "sched/step_plan.h"

namespace twin {

template <class Value>
void RequireField(bool holds, std::string_view field, Value value, const std::string& allowed) {
  if (holds) return;
  throw InputError(InputError::Kind::kUsage, fmt::format("policy.{}", field),
                   fmt::format("is {}, {}", value, allowed));
}

inline std::string AtLeastField(std::string_view other, std::int32_t value) {
  return fmt::format("must be at least {} ({})", other, value);
}

inline std::string AtMostField(std::string_view other, std::int32_t value) {
  return fmt::format("must be at most {} ({})", other, value);
}

inline void RequireAtLeast(std::string_view field, std::int32_t value, std::int32_t least) {
  RequireField(value >= least, field, value, fmt::format("must be at least {}", least));
}

// Refuses NaN, too.
inline void RequireRatio(std::string_view field, double value) {
  RequireField(value >= 0 && value <= 1e6, field, value, "must be 0 to 1000000");
}

// The number of drafts that the policy verifies.
inline void RequireDrafts(std::string_view policy, const SpeculationRules& rules) {
  const std::int32_t drafts = rules.num_speculative_tokens;
  RequireField(drafts >= 0 && drafts <= kDraftsMax, fmt::format("{}.speculation", policy), drafts,
               fmt::format("must be 0 to {} tokens", kDraftsMax));
}

// A context limit against what the model can hold.
inline void RequireWithinModel(std::string_view field, std::int32_t tokens,
                               std::int32_t model_tokens) {
  RequireField(tokens <= model_tokens, field, tokens,
               fmt::format("must be at most {}, the positions of the model "
                           "(system.model_shape.max_position lengthens them)",
                           model_tokens));
}

}  // namespace twin
