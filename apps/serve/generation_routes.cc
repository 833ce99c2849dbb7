// The routes that generate text.
#include <charconv>
#include <utility>

#include "apps/serve/serving_front.h"

namespace twin::serve {
namespace {

double SecondsFrom(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The field overrides the body's priority, as a gateway sets it.
std::optional<ApiError> TakePriority(std::string_view field, const run::ServedModel& model,
                                     ApiRequest& request) {
  if (field.empty()) return std::nullopt;
  std::int32_t priority = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), priority);
  if (error != std::errc() || end != field.data() + field.size()) {
    return ApiError{ApiErrorKind::kValue, "X-Vllm-Priority must be a whole number", "priority"};
  }
  if (priority != 0 && !model.uses_priorities) {
    return ApiError{ApiErrorKind::kValue,
                    "the policy " + model.policy + " has no priorities; allowed: 0", "priority"};
  }
  request.generation.priority = priority;
  return std::nullopt;
}

}  // namespace

void ServingFront::Completions(const Request& exchange) {
  StartGeneration(exchange, &ParseCompletion, Dialect::kOpenAi, nullptr);
}

void ServingFront::Chat(const Request& exchange) {
  StartGeneration(exchange, &ParseChat, Dialect::kOpenAi, nullptr);
}

void ServingFront::Generate(const Request& exchange) {
  StartGeneration(exchange, &ParseGenerate, Dialect::kTgi,
                  [](ApiRequest& request) { request.stream = false; });
}

void ServingFront::GenerateStream(const Request& exchange) {
  StartGeneration(exchange, &ParseGenerate, Dialect::kTgi,
                  [](ApiRequest& request) { request.stream = true; });
}

void ServingFront::GenerateInList(const Request& exchange) {
  StartGeneration(exchange, &ParseGenerate, Dialect::kTgi,
                  [](ApiRequest& request) { request.in_list = true; });
}

void ServingFront::StartGeneration(const Request& exchange, const Parse& parse, Dialect dialect,
                                   const std::function<void(ApiRequest&)>& adjust) {
  if (!service_.state().ready || service_.state().draining) {
    const bool draining = service_.state().draining;
    metrics_.CountRejection(draining ? "draining" : "not_ready");
    return Fail(exchange,
                {ApiErrorKind::kUnavailable,
                 draining ? "the server is shutting down" : "the model is being loaded", ""},
                dialect);
  }
  metrics_.CountRequest();
  WithBody(exchange, dialect, [=, this](JsonBody body, double parse_s) {
    ParsedRequest parsed = parse(std::move(body), service_.model());
    if (auto* request = std::get_if<ApiRequest>(&parsed)) {
      const std::string_view priority = exchange->request().Field("x-vllm-priority");
      if (auto error = TakePriority(priority, service_.model(), *request)) parsed = *error;
    }
    if (auto* error = std::get_if<ApiError>(&parsed)) {
      metrics_.CountInvalid();
      exchange->Post([=, this, error = std::move(*error)] { Fail(exchange, error, dialect); });
      return;
    }
    auto& request = std::get<ApiRequest>(parsed);
    if (adjust) adjust(request);
    Prepare(exchange, std::move(request), parse_s);
  });
}

// Runs on a worker.
void ServingFront::Prepare(const Request& exchange, ApiRequest request, double parse_s) {
  const auto begin = std::chrono::steady_clock::now();
  auto tokenized = TokenizePrompts(request, tools_, service_.model());
  if (auto* error = std::get_if<ApiError>(&tokenized)) {
    metrics_.CountInvalid();
    exchange->Post([this, exchange, dialect = request.dialect(), error = std::move(*error)] {
      Fail(exchange, error, dialect);
    });
    return;
  }
  for (const std::string& field : request.warnings) {
    if (metrics_.CountIgnoredField(field)) {
      log_("field \"" + field + "\" has no effect here; further requests with it are only counted");
    }
  }
  auto prepared = std::make_shared<PreparedRequest>();
  prepared->id = RequestId(exchange->request(), request.request_id);
  prepared->request = std::move(request);
  prepared->prompts = std::move(std::get<std::vector<TokenizedPrompt>>(tokenized));
  const HttpRequest& http = exchange->request();
  prepared->times.receive = std::chrono::duration<double>(http.body_read - http.begun).count();
  prepared->times.parse = parse_s;
  prepared->times.tokenize = SecondsFrom(begin);
  exchange->Post([this, exchange, prepared] {
    std::make_shared<HttpGeneration>(context_, exchange, std::move(*prepared))->Start();
  });
}

}  // namespace twin::serve
