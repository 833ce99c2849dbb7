#include "sched/policy/slack_chunking.h"

#include <fmt/format.h>

#include "sched/policy/field_check.h"

namespace twin {

void SlackChunking::Validate(std::string_view policy, std::int32_t chunk_size_max) const {
  const auto field = [policy](std::string_view name) {
    return fmt::format("{}.slack_chunking.{}", policy, name);
  };
  RequireAtLeast(field("least_chunk_size"), least_chunk_size, 1);
  RequireField(least_chunk_size <= chunk_size_max, field("least_chunk_size"), least_chunk_size,
               AtMostField("chunk_size", chunk_size_max));
  RequireRatio(field("safety_factor"), safety_factor);
  const auto require_time = [&](std::string_view name, Duration time, Duration most) {
    RequireField(time >= Duration{0} && time <= most, field(name), Seconds(time),
                 fmt::format("must be 0 to {}", Seconds(most)));
  };
  require_time("step_time_s", step_time, std::chrono::seconds(1'000));
  require_time("token_time_s", token_time, std::chrono::seconds(1));
  require_time("context_token_time_s", context_token_time, std::chrono::milliseconds(1));
}

std::int32_t SlackChunking::TokensWithin(Duration slack, std::int64_t decode_context_tokens,
                                         std::int32_t chunk_size_max) const {
  const auto fits = [&](std::int64_t tokens) {
    const Duration estimate = Estimate(tokens, decode_context_tokens);
    return static_cast<double>(estimate.count()) * safety_factor <=
           static_cast<double>(slack.count());
  };
  if (fits(chunk_size_max)) return chunk_size_max;
  std::int64_t tokens = least_chunk_size;
  while (tokens * 2 < chunk_size_max && fits(tokens * 2)) tokens *= 2;
  return static_cast<std::int32_t>(tokens);
}

}  // namespace twin
