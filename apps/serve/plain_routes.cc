// The routes that generate nothing: health, models, tokens, metrics, the record.
#include <fmt/format.h>

#include <utility>

#include "apps/serve/json_text.h"
#include "apps/serve/metrics/prometheus_text.h"
#include "apps/serve/page/live_page.h"
#include "apps/serve/protocol/api_request.h"
#include "apps/serve/protocol/field_reader.h"
#include "apps/serve/protocol/json_body.h"
#include "apps/serve/protocol/request_fields.h"
#include "apps/serve/serving_front.h"

namespace twin::serve {
namespace {

HttpResponse JsonAnswer(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

std::string IdsText(const std::vector<std::int32_t>& ids) {
  return fmt::format("[{}]", fmt::join(ids, ","));
}

// TGI's answer: each token with the characters that it stands for.
std::string TgiTokens(const std::string& text, const text::Tokenizer& tokenizer) {
  const text::Encoding encoding = tokenizer.EncodeWithOffsets(text, true);
  std::string out = "[";
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    out += fmt::format(R"({}{{"id":{},"text":{},"start":{},"stop":{}}})", i == 0 ? "" : ",",
                       encoding.ids[i], JsonString(tokenizer.TokenText(encoding.ids[i])),
                       encoding.characters[i].begin, encoding.characters[i].end);
  }
  return out + "]";
}

using TextOrError = std::variant<std::string, ApiError>;

TextOrError TokenizeBody(const JsonBody& body, const TextTools& tools,
                         const run::ServedModel& model) {
  FieldReader reader(body.fields);
  const bool is_chat = reader.Find("messages") != nullptr;
  const std::string name = reader.Text("model").value_or("");
  if (!NamesModel(name, model)) {
    reader.Fail(ApiErrorKind::kModel, "model", "the model does not exist");
  }
  const bool special = reader.Boolean("add_special_tokens").value_or(!is_chat);
  const bool spelled = reader.Boolean("return_token_strs").value_or(false);
  TextOrError text;
  if (is_chat) {
    const ChatPrompt chat = ReadChatPrompt(reader);
    reader.Refuse("chat_template", "templates of requests are not served; leave it out");
    if (auto error = reader.error()) return std::move(*error);
    text = RenderChat(chat, tools);
  } else {
    auto prompt = reader.Text("prompt");
    if (!prompt && !reader.error()) {
      reader.Fail(ApiErrorKind::kSchema, "prompt", "prompt or messages is needed");
    }
    if (auto error = reader.error()) return std::move(*error);
    text = std::move(*prompt);
  }
  if (std::holds_alternative<ApiError>(text)) return text;
  const auto ids = tools.tokenizer->Encode(std::get<std::string>(text), special);
  std::string names = "null";
  if (spelled) {
    names = "[";
    for (const std::int32_t id : ids) {
      if (names.size() > 1) names += ',';
      names += JsonString(tools.tokenizer->TokenSpelling(id).value_or(""));
    }
    names += ']';
  }
  return fmt::format(R"({{"count":{},"max_model_len":{},"tokens":{},"token_strs":{}}})", ids.size(),
                     model.max_model_length, IdsText(ids), names);
}

TextOrError DetokenizeBody(const JsonBody& body, const TextTools& tools,
                           const run::ServedModel& model) {
  if (!body.id_lists || body.nested || !body.fields.contains("tokens")) {
    // An empty list is not read as a list of ids, because it has none.
    if (body.fields.contains("tokens") && body.fields["tokens"].is_array() && !body.nested) {
      return R"({"prompt":""})";
    }
    return ApiError{ApiErrorKind::kSchema, "tokens must be a list of token ids", "tokens"};
  }
  const std::vector<std::int32_t>& ids = body.id_lists->front();
  for (const std::int32_t id : ids) {
    if (id >= model.vocabulary) {
      return ApiError{ApiErrorKind::kValue,
                      fmt::format("token id {} is not in the vocabulary; allowed: 0 to {}", id,
                                  model.vocabulary - 1),
                      "tokens"};
    }
  }
  return R"({"prompt":)" + JsonString(tools.tokenizer->Decode(ids, false)) + "}";
}

}  // namespace

void ServingFront::Health(const Request& exchange) {
  const run::ServiceState state = service_.state();
  HttpResponse response;
  response.content_type = "";
  if (!state.ready || state.draining) {
    response = ErrorResponse(
        ApiError{ApiErrorKind::kUnavailable,
                 state.draining ? "the server is shutting down" : "the model is being loaded", ""},
        Dialect::kOpenAi);
  }
  exchange->Respond(response);
}

void ServingFront::Version(const Request& exchange) {
  exchange->Respond(JsonAnswer(fmt::format(R"({{"version":{}}})", JsonString(options_.version))));
}

void ServingFront::Load(const Request& exchange) {
  const run::ServiceState state = service_.state();
  exchange->Respond(
      JsonAnswer(fmt::format(R"({{"server_load":{}}})", state.running + state.waiting)));
}

void ServingFront::Metrics(const Request& exchange) {
  HttpResponse response = JsonAnswer(metrics_.Text(server_.counts()));
  response.content_type = kPrometheusContentType;
  exchange->Respond(response);
}

void ServingFront::Models(const Request& exchange) {
  const run::ServedModel& model = service_.model();
  const std::string name = JsonString(model.name);
  const auto created = static_cast<long long>(
      std::chrono::duration_cast<std::chrono::seconds>(started_.time_since_epoch()).count());
  exchange->Respond(JsonAnswer(fmt::format(
      R"({{"object":"list","data":[{{"id":{0},"object":"model","created":{1},)"
      R"("owned_by":"twinserve","root":{0},"parent":null,"max_model_len":{2},)"
      R"("permission":[{{"id":"modelperm-{3}","object":"model_permission","created":{1},)"
      R"("allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,)"
      R"("allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,)"
      R"("organization":"*","group":null,"is_blocking":false}}]}}]}})",
      name, created, model.max_model_length, id_seed_)));
}

void ServingFront::Info(const Request& exchange) {
  const run::ServedModel& model = service_.model();
  exchange->Respond(JsonAnswer(fmt::format(
      R"({{"model_id":{},"model_sha":null,"model_pipeline_tag":"text-generation",)"
      R"("max_concurrent_requests":{},"max_best_of":1,"max_stop_sequences":{},)"
      R"("max_input_tokens":{},"max_total_tokens":{},"validation_workers":2,)"
      R"("max_client_batch_size":1,"router":"twinserve","version":{},"sha":null,)"
      R"("docker_label":null}})",
      JsonString(model.name), options_.http.connections, kStopsMax, model.max_model_length - 1,
      model.max_model_length, JsonString(options_.version))));
}

void ServingFront::Record(const Request& exchange) {
  // The record has megabytes: it is not read on a connection's thread.
  OnWorker(exchange, Dialect::kOpenAi, [this, exchange] {
    HttpResponse response;
    response.content_type = "application/octet-stream";
    response.body = service_.Record();
    exchange->Post([exchange, response = std::move(response)] { exchange->Respond(response); });
  });
}

void ServingFront::Page(const Request& exchange) {
  exchange->Respond(PageFile(exchange->request().path));
}

void ServingFront::PageState(const Request& exchange) {
  OnWorker(exchange, Dialect::kOpenAi, [this, exchange] {
    HttpResponse response = JsonAnswer(history_.JsonText());
    response.fields.push_back({"Cache-Control", "no-store"});
    exchange->Post([exchange, response = std::move(response)] { exchange->Respond(response); });
  });
}

void ServingFront::Tokenize(const Request& exchange) {
  WithBody(exchange, Dialect::kOpenAi, [this, exchange](const JsonBody& body, double /*parse_s*/) {
    const auto inputs = body.fields.find("inputs");
    const bool is_tgi = inputs != body.fields.end();
    TextOrError answer = ApiError{ApiErrorKind::kSchema, "inputs must be a text", "inputs"};
    if (!is_tgi) {
      answer = TokenizeBody(body, tools_, service_.model());
    } else if (inputs->is_string()) {
      answer = TgiTokens(inputs->get<std::string>(), *tools_.tokenizer);
    }
    exchange->Post([this, exchange, is_tgi, answer = std::move(answer)] {
      if (const auto* error = std::get_if<ApiError>(&answer)) {
        return Fail(exchange, *error, is_tgi ? Dialect::kTgi : Dialect::kOpenAi);
      }
      exchange->Respond(JsonAnswer(std::get<std::string>(answer)));
    });
  });
}

void ServingFront::Detokenize(const Request& exchange) {
  WithBody(exchange, Dialect::kOpenAi, [this, exchange](const JsonBody& body, double /*parse_s*/) {
    exchange->Post([this, exchange, answer = DetokenizeBody(body, tools_, service_.model())] {
      if (const auto* error = std::get_if<ApiError>(&answer)) {
        return Fail(exchange, *error, Dialect::kOpenAi);
      }
      exchange->Respond(JsonAnswer(std::get<std::string>(answer)));
    });
  });
}

}  // namespace twin::serve
