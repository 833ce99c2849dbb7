// The bodies of /v1/completions and /v1/chat/completions.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "apps/serve/protocol/api_request.h"
#include "apps/serve/protocol/field_reader.h"
#include "apps/serve/protocol/json_body.h"
#include "apps/serve/protocol/request_fields.h"
#include "apps/serve/text/json_part.h"
#include "config/models/model_names.h"
#include "core/hash.h"

namespace twin::serve {
namespace {

constexpr std::int64_t kAnyMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kAnyMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int32_t kTokensMax = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kLogprobsMax = 20;
constexpr std::size_t kModelIdBytesMax = 256;
constexpr const char* kOtherWork = "is not served: it changes the amount of work; leave it out";

void ReadModel(FieldReader& reader, const run::ServedModel& model) {
  const std::string name = reader.Text("model").value_or("");
  if (NamesModel(name, model)) return;
  reader.Fail(
      ApiErrorKind::kModel, "model",
      fmt::format("model \"{}\" does not exist; served: \"{}\"", name.substr(0, 100), model.name));
}

void ReadStream(FieldReader& reader, ApiRequest& request) {
  request.stream = reader.Boolean("stream").value_or(false);
  request.stream_interval =
      static_cast<std::int32_t>(reader.Integer("stream_interval", 1, kTokensMax).value_or(1));
  const FieldReader::Json* options = reader.Find("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) {
    return reader.Fail(ApiErrorKind::kSchema, "stream_options", "stream_options must be an object");
  }
  if (!request.stream) {
    return reader.Fail(ApiErrorKind::kValue, "stream_options",
                       "stream_options is only allowed with \"stream\": true");
  }
  FieldReader inner(*options, "stream_options.");
  request.include_usage = inner.Boolean("include_usage").value_or(false);
  request.continuous_usage =
      inner.Boolean("continuous_usage_stats").value_or(false) && request.include_usage;
  inner.IgnoreRest();
  reader.Take(inner);
}

void ReadStops(FieldReader& reader, ApiRequest& request, const run::ServedModel& model) {
  request.stop = reader.Texts("stop", kStopsMax);
  for (const std::string& stop : request.stop) {
    if (stop.empty() || stop.size() > kStopBytesMax) {
      reader.Fail(
          ApiErrorKind::kValue, "stop",
          fmt::format("a stop text has {} bytes; allowed: 1 to {}", stop.size(), kStopBytesMax));
    }
  }
  request.keep_stop = reader.Boolean("include_stop_str_in_output").value_or(false);
  request.generation.stop_token_ids = reader.Ids("stop_token_ids", 1024);
  for (const std::int32_t id : request.generation.stop_token_ids) {
    if (id >= model.vocabulary) {
      reader.Fail(ApiErrorKind::kValue, "stop_token_ids",
                  fmt::format("token id {} is not in the vocabulary; allowed: 0 to {}", id,
                              model.vocabulary - 1));
    }
  }
}

// A real model's sampler excludes the tokens that would end the answer before min_tokens.
void RequireFewEnds(FieldReader& reader, const run::GenerationRequest& generation,
                    const run::ServedModel& model) {
  if (model.emulated || generation.min_tokens == 0) return;
  std::set<std::int32_t> ends(model.end_tokens.begin(), model.end_tokens.end());
  ends.insert(generation.stop_token_ids.begin(), generation.stop_token_ids.end());
  if (ends.size() <= run::kMinTokensEndsMax) return;
  reader.Fail(ApiErrorKind::kValue, "min_tokens",
              fmt::format("with min_tokens, the model's {} end tokens and stop_token_ids may be {} "
                          "different tokens, not {}",
                          model.end_tokens.size(), run::kMinTokensEndsMax, ends.size()));
}

void ReadLength(FieldReader& reader, ApiRequest& request, const run::ServedModel& model) {
  run::GenerationRequest& generation = request.generation;
  generation.min_tokens =
      static_cast<std::int32_t>(reader.Integer("min_tokens", 0, kTokensMax).value_or(0));
  generation.ignore_eos = reader.Boolean("ignore_eos").value_or(false);
  if (request.max_tokens && generation.min_tokens > *request.max_tokens) {
    reader.Fail(ApiErrorKind::kValue, "min_tokens",
                fmt::format("min_tokens is {}, more than max_tokens, {}", generation.min_tokens,
                            *request.max_tokens));
  }
  RequireFewEnds(reader, generation, model);
}

void ReadDrawing(FieldReader& reader, ApiRequest& request, const run::ServedModel& model) {
  ReadSampling(reader, {}, model, request.generation.sampling);
  // -1 stands for none.
  if (const auto seed = reader.Integer("seed", kAnyMin, kAnyMax); seed && *seed != -1) {
    request.generation.sampling.seed = static_cast<std::uint64_t>(*seed);
  }
  request.answers = static_cast<std::int32_t>(reader.Integer("n", 1, kAnswersMax).value_or(1));
  const FieldReader::Json* temperature = reader.Find("temperature");
  if (request.answers > 1 && temperature != nullptr && *temperature == 0) {
    reader.Fail(ApiErrorKind::kValue, "n", "n must be 1 with temperature 0: all would be equal");
  }
  const auto best_of = reader.Integer("best_of", 1, kTokensMax);
  if (best_of && *best_of > request.answers) {
    reader.Fail(ApiErrorKind::kValue, "best_of", "best_of must not exceed n");
  }
  for (const char* penalty : {"presence_penalty", "frequency_penalty"}) {
    if (reader.Number(penalty, -2, 2)) ReadUnsampled(reader, penalty, 0, model);
  }
  ReadUnsampled(reader, "repetition_penalty", 1, model);
  for (const char* field : {"logit_bias", "allowed_token_ids", "bad_words"}) {
    ReadUnsampled(reader, field, 0, model);
  }
}

// Reads fields that change the work of the scheduler, and refuses or ignores fields of features
// that do not exist here.
void ReadSystem(FieldReader& reader, ApiRequest& request, const run::ServedModel& model) {
  const auto priority = reader.Integer("priority", std::numeric_limits<std::int32_t>::min(),
                                       std::numeric_limits<std::int32_t>::max());
  request.generation.priority = static_cast<std::int32_t>(priority.value_or(0));
  if (request.generation.priority != 0 && !model.uses_priorities) {
    reader.Fail(ApiErrorKind::kValue, "priority",
                fmt::format("the policy {} has no priorities; allowed: 0", model.policy));
  }
  if (const auto salt = reader.Text("cache_salt")) {
    if (salt->empty() || salt->size() > 128) {
      reader.Fail(ApiErrorKind::kValue, "cache_salt", "cache_salt must have 1 to 128 bytes");
    }
    request.generation.cache_salt = HashText(*salt) | 1;  // 0 stands for none
  }
  const auto truncate = reader.Integer("truncate_prompt_tokens", -1, kTokensMax);
  if (truncate) request.truncate_to = static_cast<std::int32_t>(*truncate);
  if (truncate == 0) {
    reader.Fail(ApiErrorKind::kValue, "truncate_prompt_tokens",
                "truncate_prompt_tokens is 0; allowed: -1, or at least 1");
  }
  const std::string side = reader.Text("truncation_side").value_or("left");
  if (side != "left" && side != "right") {
    reader.Fail(ApiErrorKind::kValue, "truncation_side", "allowed: left, right");
  }
  request.truncate_left = side == "left";
  request.request_id = reader.Text("request_id").value_or("");
  for (const char* field :
       {"prompt_logprobs", "logprob_token_ids", "prompt_embeds", "repetition_detection",
        "kv_transfer_params", "ec_transfer_params", "thinking_token_budget", "structured_outputs",
        "use_beam_search", "suffix", "guided_json", "guided_regex", "guided_choice",
        "guided_grammar"}) {
    reader.Refuse(field, kOtherWork);
  }
  if (const FieldReader::Json* format = reader.Find("response_format")) {
    if (!format->is_object() || format->value("type", "") != "text") {
      reader.Fail(ApiErrorKind::kValue, "response_format", "allowed: {\"type\": \"text\"}");
    }
  }
  reader.IgnoreUnless("length_penalty", 1);
  reader.Ignore({"user", "session_id", "watermarking", "vllm_xargs", "return_weight_versions",
                 "include_reasoning", "media_io_kwargs", "mm_processor_kwargs", "store", "metadata",
                 "service_tier"});
}

void ReadCommon(FieldReader& reader, ApiRequest& request, const run::ServedModel& model) {
  ReadModel(reader, model);
  ReadStream(reader, request);
  ReadStops(reader, request, model);
  ReadLength(reader, request, model);
  ReadDrawing(reader, request, model);
  ReadSystem(reader, request, model);
  request.skip_special_tokens = reader.Boolean("skip_special_tokens").value_or(true);
  if (!reader.Boolean("spaces_between_special_tokens").value_or(true)) {
    reader.Warn("spaces_between_special_tokens");
  }
  request.echo = reader.Boolean("echo").value_or(false);
  request.return_token_ids = reader.Boolean("return_token_ids").value_or(false);
  request.tokens_as_ids = reader.Boolean("return_tokens_as_token_ids").value_or(false);
  if (request.echo && request.generation.logprobs >= 0) {
    reader.Fail(ApiErrorKind::kValue, "echo", "echo is not served together with logprobs");
  }
}

ParsedRequest Finish(FieldReader& reader, ApiRequest request) {
  reader.IgnoreRest();
  if (auto error = reader.error()) return std::move(*error);
  request.warnings = reader.warnings();
  return request;
}

void ReadPrompt(FieldReader& reader, JsonBody& body, ApiRequest& request) {
  const FieldReader::Json* prompt = reader.Find("prompt");
  std::size_t count = 1;
  if (body.id_lists && prompt != nullptr) {
    count = body.id_lists->size();
    request.prompts = std::move(*body.id_lists);
  } else {
    request.prompts = reader.Texts("prompt", kPromptsMax);
    count = std::get<PromptTexts>(request.prompts).size();
    if (reader.error()) return;
  }
  if (count == 0) reader.Fail(ApiErrorKind::kValue, "prompt", "at least one prompt is needed");
  if (count > kPromptsMax) {
    reader.Fail(ApiErrorKind::kValue, "prompt",
                fmt::format("{} prompts; allowed: at most {}", count, kPromptsMax));
  }
}

void ReadTools(FieldReader& reader) {
  const FieldReader::Json* tools = reader.Find("tools");
  if (tools != nullptr && (!tools->is_array() || tools->empty())) {
    reader.Fail(ApiErrorKind::kValue, "tools", "tools must be a list of at least one tool");
  } else if (tools != nullptr) {
    reader.Warn("tools");  // tools are in the prompt, and the answer stays text
  }
  const FieldReader::Json* choice = reader.Find("tool_choice");
  if (choice != nullptr && !text::IsText(*choice, "none") && !text::IsText(*choice, "auto")) {
    reader.Fail(ApiErrorKind::kValue, "tool_choice", "allowed: none, auto");
  }
  reader.Find("parallel_tool_calls");
  reader.Refuse("chat_template", "templates of requests are not served; leave it out");
}

}  // namespace

bool NamesModel(const std::string& name, const run::ServedModel& model) {
  if (name.empty() || name == model.name || name == "dummy" || name == "tgi") return true;
  if (name.size() > kModelIdBytesMax) return false;
  const std::optional<ModelSpec> known = FindModel(name.substr(name.rfind('/') + 1));
  return known && known->name == model.name;
}

ParsedRequest ParseCompletion(JsonBody body, const run::ServedModel& model) {
  FieldReader reader(body.fields);
  ApiRequest request;
  request.form = AnswerForm::kCompletion;
  request.max_tokens =
      static_cast<std::int32_t>(reader.Integer("max_tokens", 1, kTokensMax).value_or(16));
  request.generation.logprobs =
      static_cast<std::int32_t>(reader.Integer("logprobs", 0, kLogprobsMax).value_or(-1));
  ReadPrompt(reader, body, request);
  ReadCommon(reader, request, model);
  request.add_special_tokens = reader.Boolean("add_special_tokens").value_or(true);
  return Finish(reader, std::move(request));
}

ParsedRequest ParseChat(const JsonBody& body, const run::ServedModel& model) {
  FieldReader reader(body.fields);
  ApiRequest request;
  request.form = AnswerForm::kChat;
  const auto older = reader.Integer("max_tokens", 1, kTokensMax);
  const auto newer = reader.Integer("max_completion_tokens", 1, kTokensMax);
  if (newer || older) request.max_tokens = static_cast<std::int32_t>(newer ? *newer : *older);
  const bool logprobs = reader.Boolean("logprobs").value_or(false);
  const auto top = reader.Integer("top_logprobs", 0, kLogprobsMax);
  if (top.value_or(0) > 0 && !logprobs) {
    reader.Fail(ApiErrorKind::kValue, "top_logprobs", "top_logprobs needs \"logprobs\": true");
  }
  if (logprobs) request.generation.logprobs = static_cast<std::int32_t>(top.value_or(0));
  request.prompts = ReadChatPrompt(reader);
  ReadTools(reader);
  ReadCommon(reader, request, model);
  request.add_special_tokens = reader.Boolean("add_special_tokens").value_or(false);
  return Finish(reader, std::move(request));
}

}  // namespace twin::serve
