#include "exec/real_world.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <utility>

#include "core/check.h"

namespace twin::exec {
namespace {

// Masks every token that ends the output until the output has content.tokens_min tokens.
void MaskEnds(const RealWorldOptions& options, const RequestContent& content,
              kernels::SamplingParameters& sampling) {
  std::vector<std::int32_t> ends = options.end_tokens;
  ends.insert(ends.end(), content.stop_tokens.begin(), content.stop_tokens.end());
  std::erase_if(ends, [&](std::int32_t token) { return token < 0 || token >= options.vocab; });
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  CHECK(ends.size() <= kernels::kMaskedTokensMax);
  std::copy(ends.begin(), ends.end(), sampling.masked);
  sampling.masked_count = static_cast<std::int32_t>(ends.size());
  sampling.unmasked_from = content.prompt.size() + static_cast<std::uint64_t>(content.tokens_min);
}

}  // namespace

RealWorld::RealWorld(ArrivalSource& source, std::span<Backend* const> backends,
                     const RealWorldOptions& options)
    : source_(source),
      options_(options),
      ledger_(options.end_tokens, options.named_block_size),
      tokens_(options.seed, options.vocab),
      start_(options.start) {
  CHECK(!backends.empty());
  for (Backend* const backend : backends) {
    const auto index = static_cast<std::int32_t>(replicas_.size());
    replicas_.push_back(std::make_unique<Replica>(*backend, inbox_, index));
    CHECK(options.prefill_replicas == 0 || replicas_.back()->cache != nullptr);
  }
}

RealWorld::RealWorld(ArrivalSource& source, Backend& backend, const RealWorldOptions& options)
    : RealWorld(source, std::array<Backend*, 1>{&backend}, options) {}

Instant RealWorld::Advance(TimePoint wake_at) {
  events_.clear();
  outcomes_.clear();
  filled_.clear();
  told_.clear();
  prompt_keys_used_ = 0;
  if (!start_) start_ = Clock::now();
  Clock::time_point look = *start_;  // the first look does not wait
  for (;;) {
    inbox_.Await(look, returned_);
    now_ = std::max(now_, TimeOf(Clock::now()));
    TakeCalls();
    ReturnTransfers();
    ReturnSteps();
    if (!stopping_) {
      CancelSome();
      TakeArrivals();
    }
    CloseDeparted();
    if (events_.empty() && wake_at <= now_ && !stopping_) events_.emplace_back(WakeUp{});
    if (!events_.empty()) return {now_, events_};
    const std::optional<Clock::time_point> next = NextLook(wake_at);
    if (!next) {
      stopped_early_ = stopping_ && (ledger_.open() > 0 || source_.Peek() != nullptr);
      return {now_, {}};
    }
    look = *next;
  }
}

TimePoint RealWorld::TimeOf(Clock::time_point time) const {
  return kTimeZero + std::chrono::duration_cast<Duration>(time - *start_);
}

void RealWorld::TakeCalls() {
  const std::lock_guard lock(calls_mutex_);
  stopping_ = asked_stop_;
  cancels_.insert(cancels_.end(), asked_cancels_.begin(), asked_cancels_.end());
  asked_cancels_.clear();
}

void RealWorld::Cancel(RequestId id, bool answered) {
  {
    const std::lock_guard lock(calls_mutex_);
    asked_cancels_.push_back({id, answered});
  }
  inbox_.Wake();
}

void RealWorld::Wake() { inbox_.Wake(); }

void RealWorld::Stop() {
  {
    const std::lock_guard lock(calls_mutex_);
    asked_stop_ = true;
  }
  inbox_.Wake();
}

std::optional<RealWorld::Clock::time_point> RealWorld::NextLook(TimePoint wake_at) {
  TimePoint next = kTimeNever;
  if (!stopping_) {
    if (const TracedRequest* arrival = source_.Peek()) next = arrival->arrival;
    if (!timeouts_.empty()) next = std::min(next, timeouts_.front().time);
    next = std::min(next, wake_at);
  }
  const bool may_come = !stopping_ && source_.open();
  if (next == kTimeNever && in_flight_ == 0 && !may_come) return std::nullopt;
  // The bound keeps the sum with the clock's start within its range.
  next = std::min(next, now_ + std::chrono::hours(1));
  return *start_ + next.time_since_epoch();
}

void RealWorld::ReturnTransfers() {
  while (!returned_.transfers.empty()) {
    const ReturnedTransfer transfer = returned_.transfers.PopFront();
    --in_flight_;
    events_.emplace_back(
        TransferFinished{transfer.request, transfer.from, transfer.to, TimeOf(transfer.started)});
  }
}

void RealWorld::ReturnSteps() {
  while (!returned_.steps.empty()) {
    ReturnedStep step = returned_.steps.PopFront();
    Replica& replica = ReplicaAt(step.replica);
    replica.returned.PushBack(std::move(step));
  }
  for (std::size_t i = 0; i < replicas_.size(); ++i) ReturnSteps(static_cast<std::int32_t>(i));
  // Spans are taken only after the last addition, which may move the vectors.
  std::size_t outcome = 0;
  std::size_t filled = 0;
  for (const ToldStep& step : told_) {
    events_.emplace_back(
        StepFinished{.step = step.id,
                     .started = step.started,
                     .outcomes = std::span(outcomes_).subspan(outcome, step.outcomes_end - outcome),
                     .filled = std::span(filled_).subspan(filled, step.filled_end - filled),
                     .replica = step.replica});
    outcome = step.outcomes_end;
    filled = step.filled_end;
  }
}

void RealWorld::ReturnSteps(std::int32_t index) {
  Replica& replica = ReplicaAt(index);
  while (!replica.returned.empty()) {
    const LaunchedStep launched = replica.in_flight.PopFront();
    const ReturnedStep returned = replica.returned.PopFront();
    --in_flight_;
    const StepTimes times = Measure(replica, launched, returned);
    if (options_.listener != nullptr) options_.listener->OnStep(index, launched.id, times);
    TakeTokens(returned);
    replica.last_returned = launched.id;
    told_.push_back({launched.id, index, times.started, outcomes_.size(), filled_.size()});
  }
}

StepTimes RealWorld::Measure(Replica& replica, const LaunchedStep& launched,
                             const ReturnedStep& returned) {
  StepTimes step{.planned = launched.planned,
                 .started = TimeOf(returned.started),
                 .finished = TimeOf(returned.finished),
                 .told = now_,
                 .parts = returned.parts};
  // Device time that the backend assigned to no part.
  const Duration rest = step.finished - step.started - step.parts.device();
  CHECK(step.planned <= step.started && rest >= Duration{0} && step.finished <= step.told);
  step.parts[StepPart::kOther] += rest;
  const TimePoint ready = std::max(step.planned, replica.device_free);
  step.parts[StepPart::kSchedule] = std::max(step.started - ready, Duration{0});
  step.parts[StepPart::kDelivery] = step.told - step.finished;
  replica.device_free = step.finished;
  return step;
}

void RealWorld::TakeTokens(const ReturnedStep& returned) {
  auto drafts = returned.drafts.begin();
  std::span<const kernels::TokenLogprob> logprobs = returned.logprobs;
  for (std::size_t i = 0; i < returned.sampled.size();) {
    const RequestId request = returned.sampled[i].request;
    const std::size_t outcome = outcomes_.size();
    std::int32_t taken = 0;
    for (; i < returned.sampled.size() && returned.sampled[i].request == request; ++i) {
      const auto own = TakeLogprobs(returned.sampled[i], logprobs);
      taken += TakeToken(returned.sampled[i], own) ? 1 : 0;
    }
    if (returned.drafts.empty()) continue;
    if (taken > 0) OutputLedger::Join(*drafts, taken, outcome, outcomes_);
    ++drafts;
  }
}

bool RealWorld::TakeToken(const SampledToken& sampled,
                          std::span<const kernels::TokenLogprob> logprobs) {
  const TokenFate fate = ledger_.Take(sampled, outcomes_, filled_);
  if (fate != TokenFate::kTaken && fate != TokenFate::kLast) return false;
  tokens_.Append(sampled.request, sampled.token);
  Placement& placement = placements_[sampled.request];
  ++placement.output_tokens;
  const bool may_move = options_.prefill_replicas > 0 && !placement.moved;
  if (may_move) placement.tokens.push_back(sampled.token);
  if (options_.listener != nullptr) {
    if (!logprobs.empty()) options_.listener->OnLogprobs(sampled.request, logprobs);
    options_.listener->OnToken(sampled.request, sampled.token);
  }
  if (fate == TokenFate::kLast) Depart(sampled.request, placement.output_tokens);
  return true;
}

void RealWorld::CancelSome() {
  std::erase_if(cancels_, [this](const RequestCancelled& cancelled) {
    if (ledger_.contains(cancelled.request)) CancelOpen(cancelled);
    return Index(cancelled.request) < next_id_;
  });
  // Timeouts of requests that have left are dropped.
  while (!timeouts_.empty()) {
    const Timeout& timeout = timeouts_.front();
    const bool open = ledger_.contains(timeout.id);
    if (open && timeout.time > now_) break;
    if (open) CancelOpen({timeout.id});
    timeouts_.PopFront();
  }
}

void RealWorld::CancelOpen(const RequestCancelled& cancelled) {
  events_.emplace_back(cancelled);
  ledger_.Close(cancelled.request);
  Depart(cancelled.request, cancelled.answered ? placements_[cancelled.request].output_tokens : 0);
}

void RealWorld::TakeArrivals() {
  for (const TracedRequest* arrival = source_.Peek();
       arrival != nullptr && arrival->arrival <= now_; arrival = source_.Peek()) {
    Announce(*arrival);
    source_.Take();
  }
}

RequestContent RealWorld::ContentOf(const TracedRequest& traced, RequestId id) {
  if (options_.contents != nullptr) {
    tokens_.Open(id, TracedRequest{});
    return options_.contents->Take(id);
  }
  // A prompt that will be rejected may have any length; its tokens are not generated.
  const bool fits =
      options_.max_model_length == 0 || traced.prompt_tokens <= options_.max_model_length;
  RequestContent content{.prompt = tokens_.Open(id, fits ? traced : TracedRequest{})};
  if (options_.sampling_of) content.sampling = options_.sampling_of(id);
  return content;
}

OutputEnd RealWorld::DecideOutputEnd(const TracedRequest& traced, const RequestContent& content,
                                     std::int32_t limit) const {
  if (!options_.pins_output_lengths) {
    return {.tokens_max = limit,
            .heeds_end_tokens = !traced.ignore_eos,
            .stop_tokens = content.stop_tokens};
  }
  if (traced.output_tokens >= limit) return {.tokens_max = limit};
  return {.tokens_max = traced.output_tokens, .reason = FinishReason::kStop};
}

void RealWorld::Announce(const TracedRequest& traced) {
  const RequestId id{next_id_++};
  const TimePoint arrival = std::max(traced.arrival, kTimeZero);
  const std::int32_t length_max = options_.max_model_length;
  const std::int32_t room =
      length_max > 0 ? std::max(1, length_max - traced.prompt_tokens) : traced.max_output_tokens;
  const std::int32_t limit = std::min(traced.max_output_tokens, room);
  if (prompt_keys_used_ == prompt_keys_.size()) prompt_keys_.emplace_back();
  std::vector<BlockKey>& keys = prompt_keys_[prompt_keys_used_++];
  RequestContent content = ContentOf(traced, id);
  ledger_.Open(id, content.prompt, DecideOutputEnd(traced, content, limit), keys,
               content.cache_salt);
  Placement& placement = placements_.Open(id);
  placement.replica = kNowhere;
  placement.moved = false;
  placement.sampling = content.sampling;
  if (content.tokens_min > 0) MaskEnds(options_, content, placement.sampling);
  placement.tokens = std::move(content.prompt);
  if (options_.client_timeout) timeouts_.PushBack({id, arrival + *options_.client_timeout});
  events_.emplace_back(RequestArrived{{.id = id,
                                       .arrival = arrival,
                                       .prompt_tokens = traced.prompt_tokens,
                                       .max_output_tokens = traced.max_output_tokens,
                                       .priority = traced.priority,
                                       .tenant = traced.tenant,
                                       .session = traced.session,
                                       .ignore_eos = traced.ignore_eos,
                                       .predicted_output_tokens = traced.predicted_output_tokens,
                                       .prefix_keys = keys},
                                      Duration{0},
                                      traced.client_wait});
}

void RealWorld::Launch(const StepPlan& plan) {
  if (!stopping_) {
    OpenNew(plan);
    Replica& replica = ReplicaAt(plan.replica);
    replica.last_launched = plan.id;
    replica.in_flight.PushBack({plan.id, now_});
    ++in_flight_;
    replica.worker.Launch(plan);
  }
  for (const Rejection& rejection : plan.rejected) {
    ledger_.Close(rejection.request);
    Depart(rejection.request, 0);
  }
}

void RealWorld::Transfer(const KvTransfer& transfer) {
  if (stopping_) return;
  std::vector<kernels::BlockCopy> copies;
  for (std::size_t i = 0; i < transfer.source.size(); ++i) {
    copies.push_back({static_cast<std::int32_t>(Index(transfer.source[i])),
                      static_cast<std::int32_t>(Index(transfer.target[i]))});
  }
  ++in_flight_;
  ReplicaAt(transfer.to)
      .worker.Transfer({.request = transfer.request,
                        .from = transfer.from,
                        .source = ReplicaAt(transfer.from).cache,
                        .copies = std::move(copies)});
}

void RealWorld::OpenNew(const StepPlan& plan) {
  for (const RequestId id : plan.admitted) OpenAt(plan.replica, id);
  if (options_.prefill_replicas == 0) return;
  // Blocks that keys and values are copied to are taken before their request is admitted.
  for (const KvOperation& operation : plan.kv) {
    const bool takes = operation.kind == KvOperation::Kind::kAllocate ||
                       operation.kind == KvOperation::Kind::kAttach;
    if (takes) OpenAt(plan.replica, operation.request);
  }
}

void RealWorld::OpenAt(std::int32_t index, RequestId id) {
  Placement* const placement = placements_.Find(id);
  // The request has been cancelled or is already open here.
  if (placement == nullptr || placement->replica == index) return;
  placement->moved = placement->replica != kNowhere;
  if (placement->moved) CloseAt(placement->replica, id);
  placement->replica = index;
  const bool may_move = options_.prefill_replicas > 0 && !placement->moved;
  std::vector<std::int32_t> tokens =
      may_move ? placement->tokens : std::exchange(placement->tokens, {});
  ReplicaAt(index).worker.Open(id, std::move(tokens), placement->sampling);
}

// The backend closes the request when no step in flight carries it.
void RealWorld::CloseAt(std::int32_t index, RequestId id) {
  Replica& replica = ReplicaAt(index);
  replica.departing.PushBack({id, replica.last_launched});
}

void RealWorld::Depart(RequestId id, std::int32_t answer_tokens) {
  const std::int32_t index = placements_[id].replica;
  if (index != kNowhere) CloseAt(index, id);
  placements_.Close(id);
  tokens_.Close(id);
  source_.OnDone(id, now_, answer_tokens);
}

void RealWorld::CloseDeparted() {
  for (const auto& replica : replicas_) {
    RingQueue<Departure>& departing = replica->departing;
    while (!departing.empty() && departing.front().after <= replica->last_returned) {
      replica->worker.Close(departing.PopFront().id);
    }
  }
}

}  // namespace twin::exec
