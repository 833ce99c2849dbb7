#include "apps/serve/service/answers.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>

#include "core/check.h"

namespace twin::run {
namespace {

std::int64_t ReservedTokens(const GenerationRequest& request) {
  return static_cast<std::int64_t>(request.prompt.size()) + request.max_tokens;
}

}  // namespace

Answers::Answers(const EmulatedModel* emulated, Delivery delivery,
                 std::vector<std::int32_t> end_tokens)
    : emulated_(emulated), delivery_(delivery), end_tokens_(std::move(end_tokens)) {}

void Answers::Add(AcceptedRequest accepted) {
  const std::lock_guard lock(mutex_);
  accepted_.push_back(std::move(accepted));
}

Answers::Answer& Answers::Open(RequestId id) {
  AcceptedRequest accepted;
  {
    const std::lock_guard lock(mutex_);
    CHECK(!accepted_.empty() && accepted_.front().id == id);
    accepted = std::move(accepted_.front());
    accepted_.pop_front();
  }
  Answer& answer = answers_.Open(id);
  answer = Answer{.request = std::move(accepted.request),
                  .sink = std::move(accepted.sink),
                  .emulated = accepted.emulated,
                  .seed = accepted.seed};
  return answer;
}

exec::RequestContent Answers::Take(RequestId id) {
  const Answer& answer = Open(id);
  const GenerationRequest& request = answer.request;
  static_assert(kMinTokensEndsMax == kernels::kMaskedTokensMax);
  return {.prompt = request.prompt,
          .stop_tokens = request.stop_token_ids,
          .tokens_min = request.min_tokens,
          .cache_salt = request.cache_salt,
          .sampling = {.temperature = static_cast<float>(request.sampling.temperature),
                       .top_k = request.sampling.top_k,
                       .top_p = static_cast<float>(request.sampling.top_p),
                       .min_p = static_cast<float>(request.sampling.min_p),
                       .seed = answer.seed,
                       .logprobs = request.logprobs}};
}

void Answers::OnLogprobs(RequestId /*id*/, std::span<const kernels::TokenLogprob> logprobs) {
  next_.logprob = logprobs.front().logprob;
  for (const kernels::TokenLogprob& other : logprobs.subspan(1)) {
    next_.alternatives.push_back({other.token, other.logprob});
  }
}

void Answers::OnToken(RequestId id, std::int32_t token) {
  next_.token = token;
  tokens_.emplace_back(id, std::exchange(next_, {}));
}

void Answers::OnInstant(const Instant& instant) {
  for (auto& [id, token] : tokens_) {
    token.due = instant.now;
    if (Answer* const answer = answers_.Find(id)) DeliverToken(*answer, std::move(token));
  }
  tokens_.clear();
  for (const Event& event : instant.events) {
    if (const auto* const finished = std::get_if<StepFinished>(&event)) {
      TakeStep(instant.now, *finished);
    } else if (const auto* const cancelled = std::get_if<RequestCancelled>(&event)) {
      if (Answer* const answer = answers_.Find(cancelled->request)) answer->cancelled = true;
    } else if (const auto* const arrived = std::get_if<RequestArrived>(&event)) {
      if (!answers_.contains(arrived->request.id)) Open(arrived->request.id);
    }
  }
}

void Answers::TakeStep(TimePoint now, const StepFinished& finished) {
  if (emulated_ == nullptr) {
    for (const ItemOutcome& outcome : finished.outcomes) {
      Answer* const answer = answers_.Find(outcome.request);
      if (answer != nullptr) answer->finish = outcome.finish;
    }
    return;
  }
  RingQueue<const StepPlan*>& in_flight = in_flight_.at(static_cast<std::size_t>(finished.replica));
  const StepPlan& plan = *in_flight.PopFront();
  CHECK(plan.id == finished.step);
  const ItemOutcome* outcome = finished.outcomes.data();
  const ItemOutcome* const end = outcome + finished.outcomes.size();
  for (const WorkItem& item : plan.work) {
    if (outcome != end && outcome->request == item.request) {
      Emit(now, item.request, outcome->emitted_tokens);
      Answer* const answer = answers_.Find(item.request);
      if (answer != nullptr) answer->finish = outcome->finish;
      ++outcome;
    } else if (item.emits) {
      Emit(now, item.request, 1);
    }
  }
}

void Answers::Emit(TimePoint now, RequestId id, std::int32_t count) {
  Answer* const answer = answers_.Find(id);
  // Drops tokens of steps that were issued before the end was known.
  if (answer == nullptr || answer->finish != FinishReason::kNone) return;
  for (std::int32_t i = 0; i < count; ++i) {
    GeneratedToken token{.token = emulated_->TokenAt(answer->emulated, answer->tokens), .due = now};
    emulated_->AddLogprobs(answer->emulated, answer->tokens, answer->request.logprobs, token);
    DeliverToken(*answer, std::move(token));
  }
}

void Answers::DeliverToken(Answer& answer, GeneratedToken token) {
  if (answer.tokens == 0) {
    counts_.prompt_tokens += static_cast<std::int64_t>(answer.request.prompt.size());
    counts_.cached_prompt_tokens += answer.cached_tokens;
  }
  ++counts_.generated_tokens;
  ++answer.tokens;
  answer.last_token = token.token;
  if (delivery_ == Delivery::kBatchEnd) {
    answer.held.push_back(std::move(token));
  } else {
    answer.sink->OnToken(token);
  }
}

void Answers::OnPlan(TimePoint /*now*/, const StepPlan& plan) {
  if (emulated_ != nullptr) {
    const auto replica = static_cast<std::size_t>(plan.replica);
    if (replica >= in_flight_.size()) in_flight_.resize(replica + 1);
    in_flight_[replica].PushBack(&plan);
  }
  counts_.preemptions += static_cast<std::int64_t>(plan.preempted.size());
  for (const PrefixHit& hit : plan.hits) {
    Answer* const answer = answers_.Find(hit.request);
    if (answer == nullptr || answer->scheduled) continue;
    answer->cached_tokens = hit.tokens;
    counts_.cache_hit_tokens += hit.tokens;
  }
  for (const RequestId id : plan.admitted) {
    Answer* const answer = answers_.Find(id);
    if (answer == nullptr || answer->scheduled) continue;
    counts_.cache_queried_tokens += static_cast<std::int64_t>(answer->request.prompt.size());
    counts_.reserved_tokens += ReservedTokens(answer->request);
    LeaveQueue(*answer);
  }
}

void Answers::LeaveQueue(Answer& answer) {
  if (std::exchange(answer.scheduled, true)) return;
  ++counts_.left_queue;
  counts_.left_queue_prompt_tokens += static_cast<std::int64_t>(answer.request.prompt.size());
}

EndReason Answers::ReasonOf(const Answer& answer, RequestStatus status) const {
  if (status == RequestStatus::kRejected) return EndReason::kRejected;
  if (status == RequestStatus::kCancelled || answer.cancelled) return EndReason::kCancelled;
  if (emulated_ != nullptr && answer.tokens == answer.emulated.tokens) {
    return answer.emulated.reason;
  }
  if (answer.finish == FinishReason::kLength) return EndReason::kLength;
  const auto is_last = [&](const std::vector<std::int32_t>& tokens) {
    return std::find(tokens.begin(), tokens.end(), answer.last_token) != tokens.end();
  };
  const bool ends = !answer.request.ignore_eos && is_last(end_tokens_);
  return !ends && is_last(answer.request.stop_token_ids) ? EndReason::kStopToken : EndReason::kStop;
}

void Answers::OnEnded(const RequestLife& life) {
  Answer* const answer = answers_.Find(life.id);
  if (answer == nullptr) return;
  if (answer->scheduled) counts_.reserved_tokens -= ReservedTokens(answer->request);
  LeaveQueue(*answer);
  for (GeneratedToken& token : answer->held) {
    token.due = life.ended;
    answer->sink->OnToken(token);
  }
  answer->sink->OnEnd({.reason = ReasonOf(*answer, life.status),
                       .arrived = life.arrival,
                       .first_scheduled = life.scheduled,
                       .first_token = life.first_token,
                       .last_token = life.last_token,
                       .generated_tokens = life.output_tokens,
                       .cached_prompt_tokens = life.cached_tokens,
                       .preemptions = life.preemptions});
  answer->sink.reset();
  answers_.Close(life.id);
}

void Answers::AbortAll() {
  constexpr GenerationEnd kAborted{.reason = EndReason::kAborted};
  answers_.ForEach([&](RequestId, const Answer& answer) {
    GenerationEnd end = kAborted;
    end.generated_tokens = answer.tokens;
    answer.sink->OnEnd(end);
  });
  answers_ = {};
  std::deque<AcceptedRequest> unheard;
  {
    const std::lock_guard lock(mutex_);
    unheard.swap(accepted_);
  }
  for (const AcceptedRequest& accepted : unheard) accepted.sink->OnEnd(kAborted);
}

}  // namespace twin::run
