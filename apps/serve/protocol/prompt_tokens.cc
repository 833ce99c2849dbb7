#include "apps/serve/protocol/prompt_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "apps/serve/protocol/api_request.h"
#include "core/input_error.h"

namespace twin::serve {
namespace {

ApiError PromptError(std::string message, const ApiRequest& request) {
  static constexpr const char* kFields[] = {"prompt", "messages", "inputs"};
  return {ApiErrorKind::kValue, std::move(message), kFields[static_cast<int>(request.form)]};
}

std::optional<ApiError> TooLong(std::string_view text, const ApiRequest& request,
                                const TextTools& tools, const run::ServedModel& model) {
  if (request.truncate_to) return std::nullopt;
  // Checked before the tokenizer reads it, so that a text that cannot fit costs nothing.
  const auto tokens_max = static_cast<std::size_t>(model.max_model_length);
  if (text.size() <= tokens_max * tools.tokenizer->longest_token()) return std::nullopt;
  return PromptError(
      fmt::format("the prompt has {} bytes and cannot fit into the model's {} tokens", text.size(),
                  tokens_max),
      request);
}

void Truncate(std::vector<std::int32_t>& ids, const ApiRequest& request,
              const run::ServedModel& model) {
  if (!request.truncate_to) return;
  const auto limit = static_cast<std::size_t>(*request.truncate_to < 0 ? model.max_model_length
                                                                       : *request.truncate_to);
  if (ids.size() <= limit) return;
  const auto cut = static_cast<std::ptrdiff_t>(ids.size() - limit);
  if (request.truncate_left) {
    ids.erase(ids.begin(), ids.begin() + cut);
  } else {
    ids.resize(limit);
  }
}

// Sets max_tokens, or says why the prompt does not fit.
std::optional<ApiError> FitLength(TokenizedPrompt& prompt, const ApiRequest& request,
                                  const run::ServedModel& model) {
  const auto length = static_cast<std::int64_t>(prompt.ids.size());
  const std::int64_t limit = model.max_model_length;
  if (length == 0) return PromptError("the prompt has no tokens", request);
  const auto wrong = std::ranges::find_if(
      prompt.ids, [&](std::int32_t id) { return id < 0 || id >= model.vocabulary; });
  if (wrong != prompt.ids.end()) {
    return PromptError(fmt::format("token id {} is not in the vocabulary; allowed: 0 to {}", *wrong,
                                   model.vocabulary - 1),
                       request);
  }
  if (length >= limit) {
    return PromptError(fmt::format("the prompt has {} tokens; the model's length is {}, for prompt "
                                   "and answer together",
                                   length, limit),
                       request);
  }
  const std::int64_t wanted = request.max_tokens.value_or(model.max_model_length);
  if (request.max_tokens &&
      (wanted > limit || (request.dialect() == Dialect::kTgi && length + wanted > limit))) {
    return ApiError{
        ApiErrorKind::kValue,
        fmt::format("{} answer tokens behind {} prompt tokens; the model's length is "
                    "{}",
                    wanted, length, limit),
        request.form == AnswerForm::kGenerate ? "parameters.max_new_tokens" : "max_tokens"};
  }
  prompt.max_tokens = static_cast<std::int32_t>(std::min(wanted, limit - length));
  if (request.generation.min_tokens > prompt.max_tokens) {
    return ApiError{ApiErrorKind::kValue,
                    fmt::format("min_tokens is {}; behind {} prompt tokens, {} fit",
                                request.generation.min_tokens, length, prompt.max_tokens),
                    "min_tokens"};
  }
  return std::nullopt;
}

}  // namespace

std::variant<std::string, ApiError> RenderChat(const ChatPrompt& chat, const TextTools& tools) {
  if (!tools.render_chat) {
    return ApiError{ApiErrorKind::kValue, "this model has no chat template; use /v1/completions",
                    "messages"};
  }
  try {
    return tools.render_chat(chat);
  } catch (const InputError& error) {
    return ApiError{ApiErrorKind::kValue, error.what(), "messages"};
  }
}

std::variant<std::vector<TokenizedPrompt>, ApiError> TokenizePrompts(
    const ApiRequest& request, const TextTools& tools, const run::ServedModel& model) {
  std::vector<TokenizedPrompt> prompts;
  PromptTexts texts;
  if (const auto* ids = std::get_if<PromptIds>(&request.prompts)) {
    for (const auto& prompt : *ids) {
      prompts.push_back({prompt, {}, 0});
      if (request.echo) prompts.back().text = tools.tokenizer->Decode(prompt, false);
    }
  } else if (const auto* chat = std::get_if<ChatPrompt>(&request.prompts)) {
    auto rendered = RenderChat(*chat, tools);
    if (auto* error = std::get_if<ApiError>(&rendered)) return std::move(*error);
    texts.push_back(std::move(std::get<std::string>(rendered)));
  } else {
    texts = std::get<PromptTexts>(request.prompts);
  }
  for (std::string& text : texts) {
    if (auto error = TooLong(text, request, tools, model)) return std::move(*error);
    prompts.push_back({tools.tokenizer->Encode(text, request.add_special_tokens), {}, 0});
    if (!request.echo) continue;
    if (const auto* chat = std::get_if<ChatPrompt>(&request.prompts)) {
      const auto& content = chat->messages.back()["content"];
      if (content.is_string()) prompts.back().text = content.get<std::string>();
    } else {
      prompts.back().text = std::move(text);
    }
  }
  for (TokenizedPrompt& prompt : prompts) {
    Truncate(prompt.ids, request, model);
    if (auto error = FitLength(prompt, request, model)) return std::move(*error);
  }
  return prompts;
}

}  // namespace twin::serve
