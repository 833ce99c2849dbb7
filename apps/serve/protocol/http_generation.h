// The answers to one request, from the service to the client.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/serve/front_options.h"
#include "apps/serve/http/exchange.h"
#include "apps/serve/http/fetch_ahead.h"
#include "apps/serve/metrics/front_metrics.h"
#include "apps/serve/page/live_history.h"
#include "apps/serve/protocol/answer.h"
#include "apps/serve/protocol/api_request.h"
#include "apps/serve/protocol/prompt_tokens.h"
#include "apps/serve/protocol/token_notes.h"
#include "apps/serve/protocol/token_queue.h"
#include "apps/serve/protocol/wake_list.h"
#include "apps/serve/service/service.h"

namespace twin::serve {

class HttpGeneration;

// Memory that the HttpGenerations of a thread use one after the other. Its content is meaningless
// between two of their turns.
struct PumpMemory {
  TokenQueue::Taken taken;
  std::string events;
  std::vector<TimePoint> due;  // of the tokens in `events`
};

// State that the requests of one of the server's threads share; outlives them.
struct alignas(64) FrontThread {  // the size of a cache line, which no two threads share
  FrontThread(FrontMetrics& metrics, LiveHistory& history,
              const std::function<void(const SentTokens&)>& on_sent)
      : notes(metrics, history, on_sent) {}

  WakeList<HttpGeneration> wakes;
  PumpMemory memory;
  // Both are worked off at the end of a turn, when all streams have their tokens.
  TokenNotes notes;
  std::vector<std::shared_ptr<HttpGeneration>> complete;
};

// References that all requests share; outlives them.
struct FrontContext {
  run::Service& service;
  const TextTools& tools;
  const FrontOptions& options;
  FrontMetrics& metrics;
  LiveHistory& history;
  std::deque<FrontThread>& threads;  // by Exchange::thread()
};

// A request ready for the service.
struct PreparedRequest {
  ApiRequest request;
  std::vector<TokenizedPrompt> prompts;
  std::string id;  // without the protocol's prefix
  FrontTimes times;
};

// Submits a request for each answer, sends the answers to the client, and cancels them if the
// client leaves. Lives until the service has told the end of every answer. Everything runs on the
// thread of the exchange.
class HttpGeneration : public std::enable_shared_from_this<HttpGeneration> {
 public:
  HttpGeneration(const FrontContext& context, std::shared_ptr<Exchange> exchange,
                 PreparedRequest prepared);

  // REQUIRES: called once.
  void Start();

 private:
  using Clock = std::chrono::steady_clock;

  struct Answer {
    AnswerChoice choice;
    std::shared_ptr<TokenQueue> queue;
    run::GenerationId id{};
    std::vector<run::GeneratedToken> waiting;  // for stream_interval
    std::optional<TimePoint> last_due;         // of the latest token
    bool begun = false;                        // an event was sent
    bool cancelled = false;
  };

  // The answers to one prompt that have ended.
  struct PromptEnd {
    std::int32_t answers = 0;
    std::int32_t generated_max = 0;  // tokens of the longest one
  };

  std::string SubmitAll();
  run::GenerationRequest RequestOf(const TokenizedPrompt& prompt, std::int32_t answer) const;
  void Wake();
  static void PumpSoon(FrontThread& thread, const std::shared_ptr<Exchange>& exchange);
  static void EndTurn(FrontThread& thread);
  void FetchAheadOf(std::size_t stage) const;
  void OrAbort(void (HttpGeneration::*work)());
  void Pump();
  void TakeFrom(std::size_t index, std::string& out);
  void DeliverOutputs(Answer& answer, const TokenQueue::Taken& taken, std::string& out);
  void DeliverTokens(Answer& answer, std::span<const run::GeneratedToken> tokens,
                     const std::optional<run::GenerationEnd>& end, std::string& out);
  void NoteTimes(Answer& answer, TimePoint due);
  void RefuseAll(const std::string& reason);
  void SendEvents(const std::string& events);
  void NoteSent(std::vector<TimePoint>& due);
  void MaybeFinish(std::string& out);
  void Complete();
  [[nodiscard]] std::vector<AnswerChoice> TakeChoices();
  void GiveUp();
  void FailWith(const ApiError& error);
  void Cancel(Answer& answer, run::CancelReason reason);
  void CancelAll();
  void OnEnded(const Answer& answer, const run::GenerationEnd& end);
  void OnDone(const ExchangeResult& result);
  [[nodiscard]] HttpResponse Head() const;
  void AddTimeFields(HttpResponse& response) const;

  const FrontContext& context_;
  std::shared_ptr<Exchange> exchange_;
  FrontThread& thread_;
  PreparedRequest prepared_;
  AnswerContext answer_context_;
  std::unique_ptr<AnswerFormat> format_;
  std::vector<Answer> answers_;
  std::vector<PromptEnd> prompt_ends_;  // by prompt
  std::int64_t generated_ = 0;          // tokens told to the client
  std::size_t ended_ = 0;               // answers whose GenerationEnd was taken
  bool lagging_ = false;                // the client reads more slowly than tokens come
  bool over_ = false;                   // nothing more is told to the client
  std::string outcome_;                 // for the log: "stop", "length", "abort", "left", ...
  std::vector<TimePoint> unsent_;       // due times of tokens that the socket has not taken
  TimePoint arrived_;                   // at the front, on the service's clock
};

// Between two tokens of a stream its memory leaves the caches. Each stage follows pointers that the
// stage before it has fetched.
inline void HttpGeneration::FetchAheadOf(std::size_t stage) const {
  if (stage == 0) return FetchAhead(this, sizeof(*this));
  if (answers_.empty()) return;
  if (stage == 1) {
    exchange_->FetchAheadOfSend(0);
    FetchAhead(&answers_.front(), sizeof(Answer));
    return FetchAhead(format_.get(), kCacheLineBytes);
  }
  exchange_->FetchAheadOfSend(1);
  FetchAhead(answers_.front().queue.get(), sizeof(TokenQueue));
}

}  // namespace twin::serve
