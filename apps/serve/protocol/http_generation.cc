#include "apps/serve/protocol/http_generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

namespace twin::serve {
namespace {

double SecondsBetween(std::chrono::steady_clock::time_point a,
                      std::chrono::steady_clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

std::string JoinedWarnings(const std::vector<std::string>& warnings) {
  return fmt::format("{}", fmt::join(warnings, ","));
}

// Whole seconds until a place in the queue may be free: at the latest pace, 1 to 60.
int RetryAfter(const run::ServiceState& state) {
  const double seconds = Seconds(state.now.time_since_epoch());
  const double rate = seconds > 0 ? static_cast<double>(state.prompt_tokens) / seconds : 0;
  if (rate <= 0) return 1;
  const double wait = static_cast<double>(state.waiting_prompt_tokens) / rate;
  return static_cast<int>(std::clamp(std::ceil(wait), 1.0, 60.0));
}

// ORCA's report of the load, for routers in front of several servers. `format`: "JSON" or "TEXT".
std::string LoadText(std::string_view format, const run::ServiceState& state) {
  if (format == "JSON") {
    return fmt::format(R"(JSON {{"named_metrics":{{"kv_cache_usage_perc":{},)"
                       R"("num_requests_waiting":{}}}}})",
                       state.kv_usage, state.waiting);
  }
  return fmt::format(
      "TEXT named_metrics.kv_cache_usage_perc={},named_metrics.num_requests_waiting={}",
      state.kv_usage, state.waiting);
}

}  // namespace

HttpGeneration::HttpGeneration(const FrontContext& context, std::shared_ptr<Exchange> exchange,
                               PreparedRequest prepared)
    : context_(context),
      exchange_(std::move(exchange)),
      thread_(context.threads.at(exchange_->thread())),
      prepared_(std::move(prepared)),
      prompt_ends_(prepared_.prompts.size()) {
  const ApiRequest& request = prepared_.request;
  answer_context_.request = &request;
  answer_context_.prompts = &prepared_.prompts;
  answer_context_.tokenizer = context.tools.tokenizer;
  answer_context_.id = (request.form == AnswerForm::kChat ? "chatcmpl-" : "cmpl-") + prepared_.id;
  answer_context_.model = context.service.model().name;
  answer_context_.version = context.options.version;
  answer_context_.created = std::time(nullptr);
  format_ = request.form == AnswerForm::kGenerate ? NewTgiFormat(answer_context_)
                                                  : NewOpenAiFormat(answer_context_);
}

void HttpGeneration::Start() {
  if (!exchange_->open()) return;  // the client left while its prompt was tokenized
  exchange_->on_done = [self = shared_from_this()](const ExchangeResult& result) {
    self->OnDone(result);
  };
  exchange_->on_closed = [self = shared_from_this()] { self->CancelAll(); };
  exchange_->on_drained = [self = shared_from_this()] {
    self->Pump();
    EndTurn(self->thread_);
  };
  prepared_.times.submit = SecondsBetween(exchange_->request().begun, Clock::now());
  arrived_ = context_.service.now() -
             DurationFromSeconds(prepared_.times.submit * context_.service.model().speed);
  const std::string refused = SubmitAll();
  if (!refused.empty()) return RefuseAll(refused);
  context_.metrics.ObserveFront(prepared_.times);
}

void HttpGeneration::RefuseAll(const std::string& reason) {
  CancelAll();
  outcome_ = reason;
  context_.metrics.CountRejection(reason);
  const bool draining = reason == "draining";
  const Dialect dialect = prepared_.request.dialect();
  const bool as_vllm = dialect == Dialect::kOpenAi && context_.options.overload_status == 503;
  HttpResponse response = ErrorResponse(
      ApiError{draining || as_vllm ? ApiErrorKind::kUnavailable : ApiErrorKind::kOverloaded,
               draining ? "the server is shutting down"
                        : "the queue of waiting requests is full; try again later",
               ""},
      dialect);
  if (!draining) {
    response.fields.push_back(
        {"Retry-After", fmt::to_string(RetryAfter(context_.service.state()))});
  }
  exchange_->Respond(response);
}

run::GenerationRequest HttpGeneration::RequestOf(const TokenizedPrompt& prompt,
                                                 std::int32_t answer) const {
  run::GenerationRequest request = prepared_.request.generation;
  request.prompt = prompt.ids;
  request.max_tokens = prompt.max_tokens;
  if (request.sampling.seed) *request.sampling.seed += static_cast<std::uint64_t>(answer);
  return request;
}

// Submits all answers. Returns "" if the service took them, else why not.
std::string HttpGeneration::SubmitAll() {
  const ApiRequest& request = prepared_.request;
  const run::ServedModel& model = context_.service.model();
  TokenQueue::Last last;
  last.min_tokens = request.generation.min_tokens;
  last.tokens = request.generation.stop_token_ids;
  if (!request.generation.ignore_eos) {
    last.tokens.insert(last.tokens.end(), model.end_tokens.begin(), model.end_tokens.end());
  }
  const std::size_t bytes_max =
      request.stream ? context_.options.http.waiting_output_bytes : SIZE_MAX;
  // Tokens may come before all answers are submitted, so the answers must not move any more.
  for (std::size_t p = 0; p < prepared_.prompts.size(); ++p) {
    last.max_tokens = prepared_.prompts[p].max_tokens;
    for (std::int32_t i = 0; i < request.answers; ++i) {
      const auto index = static_cast<std::int32_t>(answers_.size());
      auto queue = std::make_shared<TokenQueue>(last, bytes_max,
                                                [self = shared_from_this()] { self->Wake(); });
      answers_.push_back(
          {AnswerChoice(index, static_cast<std::int32_t>(p), request, *context_.tools.tokenizer),
           std::move(queue),
           {},
           {},
           {},
           false,
           false});
    }
  }
  for (Answer& answer : answers_) {
    const auto prompt = static_cast<std::size_t>(answer.choice.prompt());
    const auto result = context_.service.Submit(
        RequestOf(prepared_.prompts[prompt], answer.choice.index() % request.answers),
        answer.queue);
    if (const auto* refusal = std::get_if<run::Refusal>(&result)) {
      // Only the answers that were submitted will end.
      const auto submitted = static_cast<std::size_t>(answer.choice.index());
      while (answers_.size() > submitted) answers_.pop_back();
      return *refusal == run::Refusal::kDraining ? "draining" : "queue_full";
    }
    answer.id = std::get<run::GenerationId>(result);
  }
  return "";
}

// Runs on the service's thread.
void HttpGeneration::Wake() {
  if (thread_.wakes.Add(shared_from_this())) PumpSoon(thread_, exchange_);
}

// Any exchange of the thread can post to it.
void HttpGeneration::PumpSoon(FrontThread& thread, const std::shared_ptr<Exchange>& exchange) {
  exchange->Post([&thread, exchange] {
    while (thread.wakes.WakeAll(
        [](const HttpGeneration& generation, std::size_t stage) { generation.FetchAheadOf(stage); },
        [](HttpGeneration& generation) { generation.OrAbort(&HttpGeneration::Pump); },
        [&thread] { EndTurn(thread); })) {
      try {
        return PumpSoon(thread, exchange);
      } catch (const std::bad_alloc&) {  // continue at once instead
      }
    }
  });
}

// Publishes notes first: a client that has seen the end of an answer finds all of it in the
// metrics.
void HttpGeneration::EndTurn(FrontThread& thread) {
  try {
    thread.notes.Publish();
  } catch (const std::bad_alloc&) {  // the metrics do without them
  }
  for (const std::shared_ptr<HttpGeneration>& generation : thread.complete) {
    generation->OrAbort(&HttpGeneration::Complete);
  }
  thread.complete.clear();
}

// A lack of memory ends this answer, not the next ones.
void HttpGeneration::OrAbort(void (HttpGeneration::*work)()) {
  try {
    (this->*work)();
  } catch (const std::bad_alloc&) {
    exchange_->Abort();
  }
}

void HttpGeneration::Pump() {
  const bool stream = prepared_.request.stream && !over_;
  // Tokens wait in their queues until the client has read the sent ones.
  if (stream && exchange_->unwritten_bytes() > context_.options.http.unwritten_bytes) {
    lagging_ = true;
    const bool overflowed = std::ranges::any_of(
        answers_, [](const Answer& answer) { return answer.queue->overflowed(); });
    if (overflowed) GiveUp();
    return;
  }
  std::string& out = thread_.memory.events;
  out.clear();
  thread_.memory.due.clear();
  for (std::size_t i = 0; i < answers_.size(); ++i) TakeFrom(i, out);
  lagging_ = false;
  if (over_) return;
  MaybeFinish(out);
}

// The client reads too slowly for its tokens to be kept.
void HttpGeneration::GiveUp() {
  outcome_ = "slow_reader";
  exchange_->Abort();  // cancels through on_closed
}

void HttpGeneration::TakeFrom(std::size_t index, std::string& out) {
  Answer& answer = answers_[index];
  TokenQueue::Taken& taken = thread_.memory.taken;
  answer.queue->Take(taken);
  if (taken.overflowed && !over_) GiveUp();
  if (taken.end) {
    ++ended_;
    OnEnded(answer, *taken.end);
  }
  if (over_ || !exchange_->open()) return;
  if (taken.end && !answer.choice.finished() &&
      (taken.end->reason == run::EndReason::kAborted ||
       taken.end->reason == run::EndReason::kRejected)) {
    const bool aborted = taken.end->reason == run::EndReason::kAborted;
    return FailWith({ApiErrorKind::kUnavailable,
                     aborted ? "the server ended before the answer did"
                             : "the scheduling policy rejected the request",
                     ""});
  }
  if (taken.tokens.empty() && !taken.end) return;
  DeliverOutputs(answer, taken, out);
}

// Makes one event per output of the engine: tokens of one step stay together, tokens of several
// steps apart, unless the client lags.
void HttpGeneration::DeliverOutputs(Answer& answer, const TokenQueue::Taken& taken,
                                    std::string& out) {
  const ApiRequest& request = prepared_.request;
  const auto interval = static_cast<std::size_t>(request.stream_interval);
  const std::span<const run::GeneratedToken> tokens = taken.tokens;
  std::size_t next = 0;
  do {
    std::size_t end = next;
    while (end < tokens.size() && (lagging_ || tokens[end].due == tokens[next].due)) ++end;
    const auto group = tokens.subspan(next, end - next);
    next = end;
    if (lagging_ && group.size() > 1) {
      context_.metrics.CountMergedTokens(static_cast<std::int64_t>(group.size()) - 1);
    }
    if (!group.empty()) NoteTimes(answer, group.front().due);
    const bool last = end == tokens.size() && taken.end.has_value();
    const std::size_t waiting = answer.waiting.size() + group.size();
    const bool waits = request.stream && answer.begun && !last && waiting < interval;
    if (waits || !answer.waiting.empty()) {
      answer.waiting.insert(answer.waiting.end(), group.begin(), group.end());
    }
    if (waits) continue;
    const auto& told_end = last ? taken.end : std::nullopt;
    if (answer.waiting.empty()) {
      DeliverTokens(answer, group, told_end, out);
    } else {
      DeliverTokens(answer, answer.waiting, told_end, out);
      answer.waiting.clear();
    }
  } while (next < tokens.size());
}

void HttpGeneration::DeliverTokens(Answer& answer, std::span<const run::GeneratedToken> tokens,
                                   const std::optional<run::GenerationEnd>& end, std::string& out) {
  const bool finished = answer.choice.finished();
  const AnswerChoice::Delta delta = answer.choice.Add(tokens, end);
  generated_ += static_cast<std::int64_t>(delta.tokens.size());
  if (answer.choice.found_stop()) Cancel(answer, run::CancelReason::kStopString);
  if (!prepared_.request.stream || finished) return;
  if (!std::exchange(answer.begun, true)) format_->AppendBegin(out, answer.choice);
  format_->AppendDelta(out, answer.choice, delta);
  for (const run::GeneratedToken& token : delta.tokens) thread_.memory.due.push_back(token.due);
}

void HttpGeneration::SendEvents(const std::string& events) {
  if (!events.empty()) {
    if (!exchange_->streaming()) exchange_->StartStream(Head());
    exchange_->Send(events);
  }
  std::vector<TimePoint>& due = thread_.memory.due;
  const bool taken = exchange_->open() && exchange_->unwritten_bytes() == 0;
  if (taken && unsent_.empty()) return NoteSent(due);
  unsent_.insert(unsent_.end(), due.begin(), due.end());
  if (taken) NoteSent(unsent_);
}

// To be called when the socket has taken these tokens.
void HttpGeneration::NoteSent(std::vector<TimePoint>& due) {
  if (due.empty()) return;
  thread_.notes.AddSent(prepared_.id, due, context_.service.now());
  due.clear();
}

void HttpGeneration::NoteTimes(Answer& answer, TimePoint due) {
  if (answer.last_due) {
    thread_.notes.AddTokenGap(due - *answer.last_due);
  } else {
    thread_.notes.AddFirstToken(due - arrived_);
  }
  answer.last_due = due;
}

void HttpGeneration::MaybeFinish(std::string& out) {
  if (ended_ == answers_.size()) {
    over_ = true;
    outcome_ = answers_.front().choice.finish_reason();
    thread_.complete.push_back(shared_from_this());
    if (prepared_.request.stream) format_->AppendEnd(out, TakeChoices());
  }
  if (prepared_.request.stream) SendEvents(out);
}

std::vector<AnswerChoice> HttpGeneration::TakeChoices() {
  std::vector<AnswerChoice> choices;
  choices.reserve(answers_.size());
  for (Answer& answer : answers_) choices.push_back(std::move(answer.choice));
  return choices;
}

// Sends a whole answer, or ends the stream. Has no effect if the client has left.
void HttpGeneration::Complete() {
  if (prepared_.request.stream) return exchange_->Finish();
  HttpResponse response = Head();
  response.content_type = "application/json";
  response.body = format_->Whole(TakeChoices());
  AddTimeFields(response);
  exchange_->Respond(response);
}

// Reports the error once: in the stream if that has begun, else as a response.
void HttpGeneration::FailWith(const ApiError& error) {
  CancelAll();
  over_ = true;
  outcome_ = "error";
  if (!exchange_->streaming()) {
    return exchange_->Respond(ErrorResponse(error, prepared_.request.dialect()));
  }
  std::string out;
  format_->AppendError(out, error);
  thread_.notes.Publish();
  exchange_->Send(out);
  exchange_->Finish();
}

void HttpGeneration::Cancel(Answer& answer, run::CancelReason reason) {
  if (std::exchange(answer.cancelled, true)) return;
  context_.service.Cancel(answer.id, reason);
}

void HttpGeneration::CancelAll() {
  if (outcome_.empty()) outcome_ = "client_left";
  over_ = true;
  for (Answer& answer : answers_) Cancel(answer, run::CancelReason::kClientLeft);
}

HttpResponse HttpGeneration::Head() const {
  HttpResponse head;
  if (prepared_.request.stream) {
    head.content_type = "text/event-stream; charset=utf-8";
    head.fields.push_back({"Cache-Control", "no-cache"});
    head.fields.push_back({"X-Accel-Buffering", "no"});
  }
  head.fields.push_back({"X-Request-Id", prepared_.id});
  const std::string_view load = exchange_->request().Field("endpoint-load-metrics-format");
  if (load == "TEXT" || load == "JSON") {
    head.fields.push_back({"endpoint-load-metrics", LoadText(load, context_.service.state())});
  }
  if (!prepared_.request.warnings.empty()) {
    head.fields.push_back({"X-Twinserve-Warning", JoinedWarnings(prepared_.request.warnings)});
  }
  return head;
}

// TGI's fields of a whole answer, in milliseconds.
void HttpGeneration::AddTimeFields(HttpResponse& response) const {
  if (prepared_.request.form != AnswerForm::kGenerate) return;
  const double total_s = SecondsBetween(exchange_->request().begun, Clock::now());
  const auto add = [&](const char* name, double milliseconds) {
    response.fields.push_back({name, fmt::format("{:.0f}", milliseconds)});
  };
  add("x-total-time", total_s * 1e3);
  add("x-validation-time", (prepared_.times.parse + prepared_.times.tokenize) * 1e3);
  add("x-prompt-tokens", static_cast<double>(prepared_.prompts.front().ids.size()));
}

void HttpGeneration::OnEnded(const Answer& answer, const run::GenerationEnd& end) {
  const auto index = static_cast<std::size_t>(answer.choice.prompt());
  const TokenizedPrompt& prompt = prepared_.prompts[index];
  context_.metrics.ObserveEnd({.end = end,
                               .prompt_tokens = static_cast<std::int64_t>(prompt.ids.size()),
                               .max_tokens = prompt.max_tokens,
                               .stopped = answer.choice.found_stop(),
                               .front_s = prepared_.times.submit,
                               .validation_s = prepared_.times.parse + prepared_.times.tokenize});
  PromptEnd& ends = prompt_ends_.at(index);
  ends.generated_max = std::max(ends.generated_max, end.generated_tokens);
  if (++ends.answers < prepared_.request.answers) return;
  context_.metrics.ObservePrompt(prepared_.request.answers, ends.generated_max);
}

void HttpGeneration::OnDone(const ExchangeResult& result) {
  if (result.complete) NoteSent(unsent_);
  thread_.notes.Publish();
  std::size_t prompt_tokens = 0;
  for (const TokenizedPrompt& prompt : prepared_.prompts) prompt_tokens += prompt.ids.size();
  exchange_->log_text = fmt::format(
      "id={} prompt_tokens={} generated_tokens={} end={} parse_ms={:.2f} tokenize_ms={:.2f}",
      prepared_.id, prompt_tokens, generated_, result.timed_out ? "slow_reader" : outcome_,
      prepared_.times.parse * 1e3, prepared_.times.tokenize * 1e3);
}

}  // namespace twin::serve
