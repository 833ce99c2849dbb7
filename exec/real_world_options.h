// Options of a real world, the content of its requests, and the listener for its times and tokens.
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

// Receives measured times and tokens before the engine receives them, on the engine's thread.
class RealWorldListener {
 public:
  virtual ~RealWorldListener() = default;

  // The steps of a replica come in the order of launching.
  virtual void OnStep(std::int32_t /*replica*/, StepId /*id*/, const StepTimes& /*times*/) {}
  // `token` is the next one of the request's output.
  virtual void OnToken(RequestId /*id*/, std::int32_t /*token*/) {}
  // Called before OnToken() if the request asks for log-probabilities: the token's own comes first,
  // then the most likely tokens'. Valid during the call.
  virtual void OnLogprobs(RequestId /*id*/, std::span<const kernels::TokenLogprob> /*logprobs*/) {}
};

// The part of a client's request that the scheduler does not see.
struct RequestContent {
  std::vector<std::int32_t> prompt;            // TracedRequest::prompt_tokens of them
  std::vector<std::int32_t> stop_tokens = {};  // end the output, as end tokens do
  // Until the output has this many tokens, neither a stop token nor an end token is chosen.
  // REQUIRES: 0, or there are at most kernels::kMaskedTokensMax of such tokens.
  std::int32_t tokens_min = 0;
  std::uint64_t cache_salt = 0;  // requests share cached prefixes only if their salts are equal
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
  // the prompt alone reaches it, the output has one token. 0 = no limit. The engine must reject
  // longer prompts itself: the backend never receives them.
  std::int32_t max_model_length = 0;
  // Tokens that a key for prefix caching stands for (KvPoolConfig::key_tokens); 0 = no keys.
  std::int32_t named_block_size = 0;
  // True: outputs have the length that the workload gives, whichever tokens the model emits.
  bool pins_output_lengths = true;
  std::vector<std::int32_t> end_tokens = {};  // end an output if lengths are not pinned
  std::int32_t vocab = 1;                     // prompts consist of random tokens below it
  std::uint64_t seed = 0;                     // of the prompts' tokens
  // The sampling parameters of a request, asked when it is announced. Unset: greedy.
  std::function<kernels::SamplingParameters(RequestId)> sampling_of = {};
  // A client cancels its request if it has not ended after this time.
  std::optional<Duration> client_timeout = std::nullopt;
  // The number of replicas, counted from 0, that compute prompts, while the rest decodes. With
  // mixed pools, any replica may compute a prompt for any other one. 0 = every replica does both.
  std::int32_t prefill_replicas = 0;
  RealWorldListener* listener = nullptr;  // borrowed
  // For requests of real clients: supplies their content instead of random prompts. Borrowed.
  ContentSource* contents = nullptr;
  std::optional<LapTimer::Clock::time_point> start = std::nullopt;  // time zero
};

}  // namespace twin::exec
