// What a real world is made of, beside its arrivals and its backends.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/ids.h"
#include "core/step_parts.h"
#include "core/time.h"
#include "exec/lap_timer.h"
#include "kernels/sampling.h"

namespace twin::exec {

// Receives measured times and tokens, before the engine does and on its thread.
class RealWorldListener {
 public:
  virtual ~RealWorldListener() = default;

  // Called, for the steps of a replica, in the order of launching.
  virtual void OnStep(std::int32_t /*replica*/, StepId /*id*/, const StepTimes& /*times*/) {}
  // `token` is the next one of the request's output.
  virtual void OnToken(RequestId /*id*/, std::int32_t /*token*/) {}
  // Before OnToken, where the request asks for log-probabilities: the token's own, then those of
  // the most likely ones. Valid during the call.
  virtual void OnLogprobs(RequestId /*id*/, std::span<const kernels::TokenLogprob> /*logprobs*/) {}
};

// What the client of a request says beside what the scheduler sees.
struct RequestContent {
  std::vector<std::int32_t> prompt;            // TracedRequest::prompt_tokens of them
  std::vector<std::int32_t> stop_tokens = {};  // end the output, as end tokens do
  // Before the output has so many, none of these nor an end token is chosen. REQUIRES: 0, or there
  // are at most kernels::kMaskedTokensMax of them.
  std::int32_t tokens_min = 0;
  std::uint64_t cache_salt = 0;  // requests share cached prefixes only with those of equal salt
  kernels::SamplingParameters sampling = {};
};

class ContentSource {
 public:
  virtual ~ContentSource() = default;
  // Called once for every request, when it arrives, on the thread of the world.
  virtual RequestContent Take(RequestId id) = 0;
};

struct RealWorldOptions {
  // Prompt + output tokens that the model can hold. An output ends when it reaches this length; if
  // the prompt alone reaches it, the output is one token. 0 = no limit. The engine must reject
  // longer prompts itself: the backend never receives them.
  std::int32_t max_model_length = 0;
  // Tokens that a key for prefix caching stands for (KvPoolConfig::key_tokens); 0 = no keys.
  std::int32_t named_block_size = 0;
  // Outputs have the length that the workload gives, whatever tokens the model emits.
  bool pins_output_lengths = true;
  std::vector<std::int32_t> end_tokens = {};  // end an output if lengths are not pinned
  std::int32_t vocab = 1;                     // prompts consist of random tokens below it
  std::uint64_t seed = 0;                     // of the prompts' tokens
  // How a request's tokens are chosen, asked when it is announced; unset: greedily, all of them.
  std::function<kernels::SamplingParameters(RequestId)> sampling_of = {};
  // A client cancels its request if it has not ended after this time.
  std::optional<Duration> client_timeout = std::nullopt;
  // The first so many replicas compute prompts for the others, which decode, but with mixed pools
  // any replica for any other one; 0 = all do both.
  std::int32_t prefill_replicas = 0;
  RealWorldListener* listener = nullptr;  // borrowed
  // Where requests come from clients: what they say, instead of random prompts. Borrowed.
  ContentSource* contents = nullptr;
  std::optional<LapTimer::Clock::time_point> start = std::nullopt;  // time zero
};

}  // namespace twin::exec
