// A request for text, independent of its protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/serve/protocol/api_error.h"
#include "apps/serve/service/service.h"
#include "apps/serve/text/chat_template.h"

namespace twin::serve {

struct JsonBody;

using text::ChatPrompt;

// The prompts of a request before they are tokenized, all of one kind.
using PromptTexts = std::vector<std::string>;
using PromptIds = std::vector<std::vector<std::int32_t>>;
using Prompts = std::variant<PromptTexts, PromptIds, ChatPrompt>;

enum class AnswerForm : std::uint8_t { kCompletion, kChat, kGenerate };

struct ApiRequest {
  AnswerForm form = AnswerForm::kCompletion;
  Prompts prompts;
  bool add_special_tokens = true;
  std::optional<std::int32_t> truncate_to;  // kept tokens of a prompt; -1 = as many as fit
  bool truncate_left = true;                // the last tokens are kept

  std::int32_t answers = 1;                // per prompt
  std::optional<std::int32_t> max_tokens;  // unset: as many as fit
  std::vector<std::string> stop;
  bool keep_stop = false;        // the stop string stays in the text
  bool show_held_bytes = false;  // an incomplete character at the end shows as U+FFFD
  bool skip_special_tokens = true;
  bool echo = false;  // the prompt's text first
  // The request to the service for each prompt; prompt and max_tokens are filled in later.
  run::GenerationRequest generation;

  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  std::int32_t stream_interval = 1;  // tokens per event, except the first and the last
  bool return_token_ids = false;
  bool tokens_as_ids = false;  // logprobs name tokens "token_id:N"
  bool details = false;        // TGI's
  bool in_list = false;        // TGI's POST /: a whole answer is wrapped in a list

  std::string request_id;             // as the client names it; may be empty
  std::vector<std::string> warnings;  // fields without effect

  [[nodiscard]] Dialect dialect() const {
    return form == AnswerForm::kGenerate ? Dialect::kTgi : Dialect::kOpenAi;
  }
};

inline constexpr std::size_t kPromptsMax = 1024;
inline constexpr std::int32_t kAnswersMax = 128;
inline constexpr std::size_t kStopsMax = 4;
inline constexpr std::size_t kStopBytesMax = 1024;
inline constexpr std::size_t kMessagesMax = 4096;

using ParsedRequest = std::variant<ApiRequest, ApiError>;

// The bodies of POST /v1/completions, /v1/chat/completions, and of TGI's /generate,
// /generate_stream and /. docs/serving.md says which fields are served, ignored with a warning, or
// refused. These functions read nothing but the body.
ParsedRequest ParseCompletion(JsonBody body, const run::ServedModel& model);
ParsedRequest ParseChat(const JsonBody& body, const run::ServedModel& model);
ParsedRequest ParseGenerate(const JsonBody& body, const run::ServedModel& model);

// True if a client's name for the model means `model`. Clients that do not know the name send none,
// "tgi" or "dummy"; clients of the real server send the id of a checkpoint
// (meta-llama/Llama-3.1-8B) whose preset is served (config/models/model_names.h).
bool NamesModel(const std::string& name, const run::ServedModel& model);

}  // namespace twin::serve
