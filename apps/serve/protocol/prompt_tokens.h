// Turns the prompts of a request into token ids within the model's length.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "apps/serve/protocol/api_error.h"
#include "apps/serve/service/service.h"
#include "apps/serve/text/tokenizer.h"

namespace twin::text {
struct ChatPrompt;
}  // namespace twin::text

namespace twin::serve {

using text::ChatPrompt;
struct ApiRequest;

// The prompt of a conversation. Throws InputError with the template's message if it refuses the
// conversation; null for a model without a template.
using ChatRenderer = std::function<std::string(const ChatPrompt&)>;

// Tokenizer and chat template of a model. Both may be used by several threads at once.
struct TextTools {
  const text::Tokenizer* tokenizer = nullptr;  // borrowed
  ChatRenderer render_chat;
};

struct TokenizedPrompt {
  std::vector<std::int32_t> ids;
  std::string text;  // only if the request echoes it
  std::int32_t max_tokens = 0;
};

// Tokenizes, truncates if the request asks for it, and settles max_tokens: the requested number,
// but at most as many as fit after the prompt, and at least min_tokens. Takes milliseconds for long
// prompts.
std::variant<std::vector<TokenizedPrompt>, ApiError> TokenizePrompts(const ApiRequest& request,
                                                                     const TextTools& tools,
                                                                     const run::ServedModel& model);

// The prompt's text of a conversation, or why the template refuses it.
std::variant<std::string, ApiError> RenderChat(const ChatPrompt& chat, const TextTools& tools);

}  // namespace twin::serve
