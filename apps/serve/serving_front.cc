#include "apps/serve/serving_front.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <random>
#include <utility>

#include "apps/serve/http/scarce_memory.h"
#include "core/hash.h"
#include "core/letter_case.h"
#include "core/printable.h"

namespace twin::serve {
namespace {

constexpr std::size_t kWorkers = 2;  // of each kind
// A tokenizer takes about a tenth of a second for so many bytes.
constexpr std::size_t kShortBodyBytesMax = 256 << 10;
constexpr std::size_t kIdBytesMax = 128;

// Takes as long for a wrong key as for the right one.
bool EqualKeys(std::string_view given, std::string_view key) {
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char expected = key.empty() ? '\0' : key[i % key.size()];
    difference |= static_cast<unsigned>(given[i] ^ expected);
  }
  return difference == 0 && !key.empty();
}

std::string_view BearerOf(const HttpRequest& request) {
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view field = request.Field("authorization");
  if (field.size() < kScheme.size() ||
      !EqualsIgnoringCase(field.substr(0, kScheme.size()), kScheme)) {
    return {};
  }
  return field.substr(kScheme.size());
}

bool IsJson(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  const std::size_t end = type.find_last_not_of(' ');
  return end != std::string_view::npos &&
         EqualsIgnoringCase(type.substr(0, end + 1), "application/json");
}

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

const ServingFront::Route ServingFront::kRoutes[] = {
    {"/health", "GET", Guard::kNone, Dialect::kOpenAi, &ServingFront::Health},
    {"/ping", "GET", Guard::kNone, Dialect::kOpenAi, &ServingFront::Health},
    {"/ping", "POST", Guard::kNone, Dialect::kOpenAi, &ServingFront::Health},
    {"/version", "GET", Guard::kNone, Dialect::kOpenAi, &ServingFront::Version},
    {"/load", "GET", Guard::kNone, Dialect::kOpenAi, &ServingFront::Load},
    {"/metrics", "GET", Guard::kMetrics, Dialect::kOpenAi, &ServingFront::Metrics},
    {"/info", "GET", Guard::kNone, Dialect::kTgi, &ServingFront::Info},
    {"/", "GET", Guard::kNone, Dialect::kOpenAi, &ServingFront::Page},
    {"/live.js", "GET", Guard::kNone, Dialect::kOpenAi, &ServingFront::Page},
    {"/live.css", "GET", Guard::kNone, Dialect::kOpenAi, &ServingFront::Page},
    {"/live.json", "GET", Guard::kMetrics, Dialect::kOpenAi, &ServingFront::PageState},
    {"/v1/models", "GET", Guard::kKey, Dialect::kOpenAi, &ServingFront::Models},
    {"/v1/twinserve/record", "GET", Guard::kAdmin, Dialect::kOpenAi, &ServingFront::Record},
    {"/v1/completions", "POST", Guard::kKey, Dialect::kOpenAi, &ServingFront::Completions},
    {"/v1/chat/completions", "POST", Guard::kKey, Dialect::kOpenAi, &ServingFront::Chat},
    {"/generate", "POST", Guard::kKey, Dialect::kTgi, &ServingFront::Generate},
    {"/generate_stream", "POST", Guard::kKey, Dialect::kTgi, &ServingFront::GenerateStream},
    {"/", "POST", Guard::kKey, Dialect::kTgi, &ServingFront::GenerateInList},
    {"/tokenize", "POST", Guard::kKey, Dialect::kOpenAi, &ServingFront::Tokenize},
    {"/detokenize", "POST", Guard::kKey, Dialect::kOpenAi, &ServingFront::Detokenize},
};

ServingFront::ServingFront(run::Service& service, TextTools tools, FrontOptions options,
                           const std::string& host, std::uint16_t port, Log log)
    : service_(service),
      tools_(std::move(tools)),
      options_(std::move(options)),
      host_(host),
      log_(std::move(log)),
      metrics_(service),
      history_(service),
      context_{service_, tools_, options_, metrics_, history_, threads_},
      id_seed_(std::random_device{}()),
      workers_(kWorkers),
      long_workers_(kWorkers),
      server_(
          host, port, options_.http, options_.threads,
          [this](const Request& exchange) { Handle(exchange); },
          [this](const Exchange& exchange, const ExchangeResult& result) {
            OnDone(exchange, result);
          }) {
  for (std::size_t i = 0; i < options_.threads; ++i) {
    threads_.emplace_back(metrics_, history_, options_.on_sent);
  }
  service_.SetStepListener(this);
}

ServingFront::~ServingFront() { Stop(); }

void ServingFront::Drain() { server_.Drain(); }

void ServingFront::Stop() {
  server_.Stop();
  workers_.Join();
  long_workers_.Join();
}

void ServingFront::OnStep(const Step& step) {
  metrics_.OnStep(step);
  history_.OnStep(step);
}

void ServingFront::Handle(const Request& exchange) {
  if (!NamesThisHost(exchange->request())) {
    return Fail(exchange,
                {ApiErrorKind::kHost, "the Host field names another host than this one", ""},
                Dialect::kOpenAi);
  }
  const Route* route = FindRoute(exchange);
  if (route == nullptr) return;
  if (!MayCall(exchange->request(), route->guard)) {
    return Fail(exchange, {ApiErrorKind::kKey, "the API key is missing or wrong", ""},
                route->dialect);
  }
  (this->*route->answer)(exchange);
}

// Null if there is no such route; the exchange is then answered.
const ServingFront::Route* ServingFront::FindRoute(const Request& exchange) const {
  const HttpRequest& request = exchange->request();
  std::string_view method = request.method;
  if (method == "HEAD") method = "GET";
  std::string allowed;
  for (const Route& route : kRoutes) {
    if (route.path != request.path) continue;
    if (route.method == method) return &route;
    allowed += (allowed.empty() ? "" : ", ") + std::string(route.method);
    if (route.method == "GET") allowed += ", HEAD";
  }
  if (allowed.empty()) {
    exchange->Respond(ErrorResponse(
        ApiError{ApiErrorKind::kRoute, fmt::format("no route {}", Printable(request.path)), ""},
        Dialect::kOpenAi));
    return nullptr;
  }
  HttpResponse response =
      ErrorResponse(ApiError{ApiErrorKind::kMethod,
                             fmt::format("{} does not take {}; allowed: {}", request.path,
                                         Printable(request.method), allowed),
                             ""},
                    Dialect::kOpenAi);
  response.fields.push_back({"Allow", allowed});
  exchange->Respond(response);
  return nullptr;
}

bool ServingFront::MayCall(const HttpRequest& request, Guard guard) const {
  if (guard == Guard::kAdmin) return EqualKeys(BearerOf(request), options_.admin_key);
  const bool guarded = guard == Guard::kKey || (guard == Guard::kMetrics && options_.guard_metrics);
  return !guarded || options_.api_key.empty() || EqualKeys(BearerOf(request), options_.api_key);
}

// A page of another site can make a browser call this server by a name that it resolves to the
// loopback address. Its name is then in Host.
bool ServingFront::NamesThisHost(const HttpRequest& request) const {
  if (!server_.loopback()) return true;
  std::string_view name = request.Field("host");
  if (!name.starts_with('[')) {
    name = name.substr(0, name.find(':'));
  } else {
    name = name.substr(1, name.find(']') - 1);
  }
  return name.empty() || name == "localhost" || name == "127.0.0.1" || name == "::1" ||
         name == host_;
}

void ServingFront::Fail(const Request& exchange, const ApiError& error, Dialect dialect) {
  HttpResponse response = ErrorResponse(error, dialect);
  if (error.kind == ApiErrorKind::kKey) response.fields.push_back({"WWW-Authenticate", "Bearer"});
  exchange->Respond(response);
}

void ServingFront::OnWorker(const Request& exchange, Dialect dialect, std::function<void()> work) {
  const bool is_short = exchange->request().body.size() <= kShortBodyBytesMax;
  WorkerPool& workers = is_short ? workers_ : long_workers_;
  workers.Post([this, exchange, dialect, work = std::move(work)] {
    if (exchange->left()) return;
    try {
      Work(exchange, dialect, work);
    } catch (const std::bad_alloc&) {
      AbortFor(exchange);
    }
  });
}

// Answers 500 if `work` throws. Passes std::bad_alloc on: an answer would need memory, too.
void ServingFront::Work(const Request& exchange, Dialect dialect,
                        const std::function<void()>& work) {
  std::string message;
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    message = error.what();
  }
  log_(fmt::format("internal error: {}", Printable(message, kMessageBytesMax)));
  exchange->Post([this, exchange, dialect] {
    Fail(exchange, {ApiErrorKind::kInternal, "internal error; the server's log says more", ""},
         dialect);
  });
}

// Ends the connection once there is memory for that; there was none for an answer.
void ServingFront::AbortFor(const Request& exchange) noexcept {
  DoWhenThereIsMemory([&] { exchange->Post([exchange] { exchange->Abort(); }); });
}

void ServingFront::WithBody(const Request& exchange, Dialect dialect, BodyWork work) {
  if (!IsJson(exchange->request().Field("content-type"))) {
    return Fail(exchange, {ApiErrorKind::kMediaType, "Content-Type must be application/json", ""},
                dialect);
  }
  OnWorker(exchange, dialect, [this, exchange, dialect, work = std::move(work)] {
    const auto begin = std::chrono::steady_clock::now();
    auto body = ReadJsonBody(exchange->request().body);
    if (auto* error = std::get_if<ApiError>(&body)) {
      exchange->Post(
          [this, exchange, dialect, error = std::move(*error)] { Fail(exchange, error, dialect); });
      return;
    }
    work(std::move(std::get<JsonBody>(body)), SecondsSince(begin));
  });
}

std::string ServingFront::RequestId(const HttpRequest& request, const std::string& named) {
  const std::string_view field = request.Field("x-request-id");
  const std::string_view id = field.empty() ? std::string_view(named) : field;
  const bool usable = !id.empty() && id.size() <= kIdBytesMax &&
                      std::ranges::all_of(id, [](char c) { return c > ' ' && c < '\x7f'; });
  if (usable) return std::string(id);
  const std::uint64_t number = ++ids_;
  return HexText(MixWords(id_seed_, number)) + HexText(MixWords(number, id_seed_));
}

void ServingFront::OnDone(const Exchange& exchange, const ExchangeResult& result) {
  const HttpRequest& request = exchange.request();
  const double seconds = SecondsSince(request.begun);
  const auto known =
      std::ranges::find_if(kRoutes, [&](const Route& route) { return route.path == request.path; });
  const bool is_known = known != std::end(kRoutes);
  metrics_.CountHttp({.route = is_known ? known->path : "none",
                      .method = is_known ? request.method : "other",
                      .status = result.status,
                      .seconds = seconds,
                      .request_bytes = request.body.size(),
                      .response_bytes = result.bytes});
  // Scrapes and probes are no requests of clients.
  if (request.method == "GET" && result.status == 200) return;
  log_(fmt::format("{} {} {} {:.1f} ms {} B {}{}{}", request.method, Printable(request.path),
                   result.complete ? fmt::to_string(result.status) : "left", seconds * 1e3,
                   result.bytes, exchange.client(), exchange.log_text.empty() ? "" : " ",
                   exchange.log_text));
}

}  // namespace twin::serve
