// The serving front: the routes of OpenAI's and TGI's protocols in front of a run::Service.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "apps/serve/front_options.h"
#include "apps/serve/http/http_server.h"
#include "apps/serve/metrics/front_metrics.h"
#include "apps/serve/page/live_history.h"
#include "apps/serve/protocol/http_generation.h"
#include "apps/serve/protocol/json_body.h"
#include "apps/serve/protocol/prompt_tokens.h"
#include "apps/serve/service/service.h"
#include "apps/serve/worker_pool.h"

namespace twin::serve {

// Uses three kinds of threads: threads of connections, workers that read JSON and tokenize (two for
// short bodies, two for long ones), and the thread of the service, which no other thread waits for.
class ServingFront final : private run::StepListener {
 public:
  // Takes a line of the log. Called from several threads at once.
  using Log = std::function<void(const std::string&)>;

  // Binds; throws InputError (usage) as HttpServer does. `service` and what `tools` borrows must
  // outlive the front. Sets the service's step listener.
  ServingFront(run::Service& service, TextTools tools, FrontOptions options,
               const std::string& host, std::uint16_t port, Log log);
  ~ServingFront() override;

  [[nodiscard]] std::uint16_t port() const { return server_.port(); }
  [[nodiscard]] bool loopback() const { return server_.loopback(); }

  void Start() { server_.Start(); }
  // Accepts nothing new; /health is 503 on connections that are open. Requests run on.
  void Drain();
  // Waits until no request is in progress. True if that happened within `time`.
  bool WaitUntilIdle(std::chrono::milliseconds time) { return server_.WaitUntilIdle(time); }
  // Ends all connections.
  void Stop();

 private:
  using Request = std::shared_ptr<Exchange>;
  enum class Guard : std::uint8_t { kNone, kKey, kMetrics, kAdmin };
  struct Route {
    std::string_view path;
    std::string_view method;
    Guard guard;
    Dialect dialect;
    void (ServingFront::*answer)(const Request&);
  };
  static const Route kRoutes[];

  void OnStep(const Step& step) override;
  void Handle(const Request& exchange);
  void OnDone(const Exchange& exchange, const ExchangeResult& result);
  const Route* FindRoute(const Request& exchange) const;
  [[nodiscard]] bool MayCall(const HttpRequest& request, Guard guard) const;
  [[nodiscard]] bool NamesThisHost(const HttpRequest& request) const;
  // Runs `work` on a worker; what it throws becomes a 500.
  void OnWorker(const Request& exchange, Dialect dialect, std::function<void()> work);
  void Work(const Request& exchange, Dialect dialect, const std::function<void()>& work);
  static void AbortFor(const Request& exchange) noexcept;
  // Runs work on a worker with the JSON of the request's body.
  using BodyWork = std::function<void(JsonBody body, double parse_s)>;
  void WithBody(const Request& exchange, Dialect dialect, BodyWork work);
  void Fail(const Request& exchange, const ApiError& error, Dialect dialect);

  // The routes.
  void Health(const Request& exchange);
  void Version(const Request& exchange);
  void Load(const Request& exchange);
  void Metrics(const Request& exchange);
  void Models(const Request& exchange);
  void Info(const Request& exchange);
  void Record(const Request& exchange);
  void Page(const Request& exchange);
  void PageState(const Request& exchange);
  void Completions(const Request& exchange);
  void Chat(const Request& exchange);
  void Generate(const Request& exchange);
  void GenerateStream(const Request& exchange);
  void GenerateInList(const Request& exchange);
  void Tokenize(const Request& exchange);
  void Detokenize(const Request& exchange);

  using Parse = std::function<ParsedRequest(JsonBody, const run::ServedModel&)>;
  void StartGeneration(const Request& exchange, const Parse& parse, Dialect dialect,
                       const std::function<void(ApiRequest&)>& adjust);
  void Prepare(const Request& exchange, ApiRequest request, double parse_s);
  [[nodiscard]] std::string RequestId(const HttpRequest& request, const std::string& named);

  run::Service& service_;
  const TextTools tools_;
  const FrontOptions options_;
  const std::string host_;
  const Log log_;
  FrontMetrics metrics_;
  LiveHistory history_;
  std::deque<FrontThread> threads_;
  const FrontContext context_;
  const std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
  std::uint64_t id_seed_;
  std::atomic<std::uint64_t> ids_ = 0;
  WorkerPool workers_;       // for short work
  WorkerPool long_workers_;  // for bodies above kShortBodyBytesMax: short ones do not wait
  HttpServer server_;
};

}  // namespace twin::serve
