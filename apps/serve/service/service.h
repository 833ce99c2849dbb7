// The interface between the routes of the serving front (apps/serve/) and an engine with its world
// (apps/serve/service/), which generates text.
//
// A request crosses it as token ids. Tokenizers, chat templates and stop strings belong to the
// front, as they do in vLLM.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/serve/service/service_state.h"
#include "core/time.h"

namespace twin::run {

// How the next token is chosen. Defaults: greedily.
struct Sampling {
  double temperature = 0;  // 0 = greedy
  double top_p = 1;
  std::int32_t top_k = 0;  // 0 = off
  double min_p = 0;
  std::optional<std::uint64_t> seed = std::nullopt;  // unset: drawn by the service

  bool operator==(const Sampling&) const = default;
};

// The most tokens that may end an answer with min_tokens. An emulated model has no such limit.
inline constexpr std::size_t kMinTokensEndsMax = 8;

// A request for one answer. The front has checked everything that does not depend on the state of
// the system. A client's request for `n` answers is n of these.
struct GenerationRequest {
  std::vector<std::int32_t> prompt;  // token ids, at least one
  std::int32_t max_tokens = 1;       // >= 1; prompt + max_tokens <= max_model_length
  // The first min_tokens tokens are no end tokens and no stop tokens. REQUIRES for a real model: 0,
  // or it has at most kMinTokensEndsMax of both together.
  std::int32_t min_tokens = 0;
  bool ignore_eos = false;                   // the answer has max_tokens tokens
  std::vector<std::int32_t> stop_token_ids;  // end the answer; the token counts
  std::int32_t logprobs = -1;                // most likely tokens told with each token; -1 = none
  Sampling sampling;
  std::int32_t priority = 0;  // smaller = more important
  std::uint32_t tenant = 0;
  std::uint64_t session = 0;     // 0 = none
  std::uint64_t cache_salt = 0;  // cached prefixes are shared by requests of equal salt only
};

struct AlternativeToken {
  std::int32_t token = 0;
  float logprob = 0;
};

struct GeneratedToken {
  std::int32_t token = 0;
  float logprob = 0;                                // if asked for
  std::vector<AlternativeToken> alternatives = {};  // if asked for, the most likely one first
  TimePoint due = {};  // when the engine had the token, on the service's clock
};

// Why an answer ended.
enum class EndReason : std::uint8_t {
  kStop,       // the model's end of sequence
  kStopToken,  // one of stop_token_ids, the last token told
  kLength,     // max_tokens
  kCancelled,  // Cancel()
  kRejected,   // by the policy: it can never be computed, or the policy sheds load
  kAborted,    // the service ended before the answer did
};

// The life of a request on the service's clock, and what it took. Times that were not reached are
// TimePoint::max().
struct GenerationEnd {
  EndReason reason = EndReason::kStop;
  TimePoint arrived = {};  // at the engine, as recorded
  TimePoint first_scheduled = kTimeNever;
  TimePoint first_token = kTimeNever;
  TimePoint last_token = kTimeNever;
  std::int32_t generated_tokens = 0;
  std::int32_t cached_prompt_tokens = 0;  // of the prompt, found in the prefix cache
  std::int32_t preemptions = 0;
};

// Receives one answer. All calls come from the service's thread, in order, and must return at
// once: they copy what they need and let other threads work. OnEnd is the last call, and the
// service then gives the sink up.
class GenerationSink {
 public:
  virtual ~GenerationSink() = default;
  virtual void OnToken(const GeneratedToken& token) = 0;
  virtual void OnEnd(const GenerationEnd& end) = 0;
};

enum class GenerationId : std::uint32_t {};

// Why a request was not accepted. The record has it nevertheless, as an arrival that was refused.
enum class Refusal : std::uint8_t {
  kQueueFull,  // too many waiting requests, or prompt tokens of them; try again later
  kDraining,   // the service ends
};

// Why a front ends a request before its answer is complete. The record has it as an event at a
// boundary of steps.
enum class CancelReason : std::uint8_t {
  kClientLeft,
  kStopString,  // found in the text; the answer counts as completed
};

// Hears of every step, on the service's thread; must return at once.
class StepListener {
 public:
  virtual ~StepListener() = default;
  struct Step {
    TimePoint now = {};
    std::int32_t replica = 0;
    Duration since_planned{0};
    Duration since_started{0};  // by the device
    std::int64_t prefill_tokens = 0;
    std::int64_t decode_tokens = 0;
    std::int64_t requests = 0;
    std::int64_t admitted = 0;  // requests that came from the queue with this step
    std::int64_t running = 0;   // requests in the batch, with the admitted ones
    // Emulated worlds: wall clock from when results were due until they were told.
    Duration lateness{0};
  };
  virtual void OnStep(const Step& step) = 0;
};

// A running system. All calls may come from any thread, and none waits for a step.
class Service {
 public:
  virtual ~Service() = default;

  [[nodiscard]] virtual const ServedModel& model() const = 0;
  // Cheap: copies a snapshot that the service's thread writes after each step.
  [[nodiscard]] virtual ServiceState state() const = 0;
  // The service's clock: time since its start, times `speed`.
  [[nodiscard]] virtual TimePoint now() const = 0;

  virtual std::variant<GenerationId, Refusal> Submit(GenerationRequest request,
                                                     std::shared_ptr<GenerationSink> sink) = 0;
  // Has no effect on an answer that has ended. OnEnd follows, unless it was called already.
  virtual void Cancel(GenerationId id, CancelReason reason) = 0;

  // One listener at most; set before the first Submit(). Borrowed.
  virtual void SetStepListener(StepListener* listener) = 0;

  // Refuses new requests from now on. Accepted requests run on.
  virtual void Drain() = 0;
  // Bytes of the run's record so far, complete up to the latest flush; empty if none is written.
  [[nodiscard]] virtual std::string Record() const = 0;
};

}  // namespace twin::run
