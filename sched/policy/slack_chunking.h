// Steps as long as the deadlines of running requests allow: the chunk size of Niyama.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/time.h"

namespace twin {

// How long a step may take is what the most urgent decode has left until its next token is due. How
// many tokens fit into that time follows from a linear estimate, which is a parameter: a policy
// knows neither the device nor its cost model.
//
// Source: the scheduler for tiers of service in Niyama's branch of Sarathi-Serve (revision
// 72339db5), as in the policy notes, section 9.5.
//
// It differs in three ways. The estimate is one linear function instead of one below and one above
// 512 tokens. Chunks are least_chunk_size times a power of two, or the largest one, instead of a
// list, also where memory is short. The rate of prefills that decides about relegation follows from
// the estimate instead of from measurements.
struct SlackChunking {
  std::int32_t least_chunk_size = 128;                  // tokens, whatever the deadlines
  double safety_factor = 1.2;                           // of estimated times
  Duration step_time = std::chrono::milliseconds(8);    // of every step
  Duration token_time = std::chrono::microseconds(40);  // of each token that is computed
  Duration context_token_time =
      std::chrono::nanoseconds(20);  // of each token that decodes attend to
  // A prompt that cannot be computed until its first token is due goes to the end, once.
  bool relegates = true;

  // Throws InputError (usage), "policy.FIELD.slack_chunking.NAME: ...".
  void Validate(std::string_view policy, std::int32_t chunk_size_max) const;

  // Tokens of the largest step, up to chunk_size_max, that is estimated to take no longer than
  // `slack`; least_chunk_size if there is none.
  [[nodiscard]] std::int32_t TokensWithin(Duration slack, std::int64_t decode_context_tokens,
                                          std::int32_t chunk_size_max) const;
  [[nodiscard]] Duration Estimate(std::int64_t tokens, std::int64_t decode_context_tokens) const {
    return step_time + token_time * tokens + context_token_time * decode_context_tokens;
  }

  bool operator==(const SlackChunking&) const = default;
};

}  // namespace twin
