// The answers under way: passes tokens and the ends of answers to their sinks.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "apps/serve/service/emulated_answers.h"
#include "apps/serve/service/service.h"
#include "core/id_window.h"
#include "core/ring_queue.h"
#include "exec/real_world_options.h"
#include "run/record/run_listener.h"
#include "run/record/run_observer.h"
#include "sched/policy/policy.h"

namespace twin::run {

// A request that was accepted.
struct AcceptedRequest {
  RequestId id{};
  GenerationRequest request;
  std::shared_ptr<GenerationSink> sink;
  EmulatedAnswer emulated;  // for an emulated model
  std::uint64_t seed = 0;   // for a real model that samples
};

// Counts that only grow, except reserved_tokens.
struct AnswerCounts {
  std::int64_t prompt_tokens = 0;         // by first tokens
  std::int64_t cached_prompt_tokens = 0;  // of these, found in the prefix cache
  std::int64_t generated_tokens = 0;
  std::int64_t cache_queried_tokens = 0;
  std::int64_t cache_hit_tokens = 0;
  std::int64_t preemptions = 0;
  // Accepted requests that are carried by a step for the first time, or end before that.
  std::int64_t left_queue = 0;
  std::int64_t left_queue_prompt_tokens = 0;
  std::int64_t reserved_tokens = 0;  // prompt + max_tokens of answers that a step has carried
};

// Add() is called from any thread, everything else by the thread of the world. As an observer it
// must come before the RequestTracker that it listens to.
//
// Tokens of a real world come from the world itself (OnToken), before the instant that tells the
// engine. Tokens of an emulated world are counted from instants and plans.
class Answers final : public RunObserver,
                      public RunListener,
                      public exec::RealWorldListener,
                      public exec::ContentSource {
 public:
  // `emulated`: borrowed; null in a real world, whose model ends answers with `end_tokens`.
  Answers(const EmulatedModel* emulated, Delivery delivery, std::vector<std::int32_t> end_tokens);

  // REQUIRES: ids rise; before the world hears of the request.
  void Add(AcceptedRequest accepted);

  // Ends all answers because the world ends, also of requests that it has not heard of.
  void AbortAll();

  [[nodiscard]] const AnswerCounts& counts() const { return counts_; }
  [[nodiscard]] std::int64_t open() const { return static_cast<std::int64_t>(answers_.size()); }

  exec::RequestContent Take(RequestId id) override;
  void OnToken(RequestId id, std::int32_t token) override;
  void OnLogprobs(RequestId id, std::span<const kernels::TokenLogprob> logprobs) override;
  void OnInstant(const Instant& instant) override;
  void OnPlan(TimePoint now, const StepPlan& plan) override;
  void OnEnded(const RequestLife& life) override;

 private:
  struct Answer {
    GenerationRequest request;
    std::shared_ptr<GenerationSink> sink;
    EmulatedAnswer emulated;
    std::uint64_t seed = 0;
    std::int32_t tokens = 0;         // told, or held
    std::int32_t last_token = 0;     // REQUIRES: tokens > 0
    std::int32_t cached_tokens = 0;  // of its prompt, when it was scheduled first
    bool scheduled = false;
    bool cancelled = false;
    FinishReason finish = FinishReason::kNone;
    std::vector<GeneratedToken> held = {};  // until the batch has ended
  };

  // Moves a request from the accepted ones to the open answers.
  Answer& Open(RequestId id);
  void TakeStep(TimePoint now, const StepFinished& finished);
  void Emit(TimePoint now, RequestId id, std::int32_t count);
  void DeliverToken(Answer& answer, GeneratedToken token);
  void LeaveQueue(Answer& answer);
  [[nodiscard]] EndReason ReasonOf(const Answer& answer, RequestStatus status) const;

  const EmulatedModel* emulated_;
  const Delivery delivery_;
  const std::vector<std::int32_t> end_tokens_;
  IdWindow<Answer> answers_;
  std::vector<RingQueue<const StepPlan*>> in_flight_;         // by replica, of an emulated world
  std::vector<std::pair<RequestId, GeneratedToken>> tokens_;  // of a real world's next instant
  GeneratedToken next_;  // of a real world: the logprobs that come before OnToken
  AnswerCounts counts_;

  std::mutex mutex_;  // guards the member below
  std::deque<AcceptedRequest> accepted_;
};

}  // namespace twin::run
