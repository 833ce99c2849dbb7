// A model's chat template: messages of a conversation to the text of its prompt.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "apps/serve/text/template/template.h"

namespace twin::text {

// The prompt of a chat request, in the fields of OpenAI's and vLLM's routes.
struct ChatPrompt {
  // Objects with `role` and `content`: a text, null, or a list of parts of type text.
  nlohmann::ordered_json messages;
  nlohmann::ordered_json tools = nullptr;      // a list, or null
  nlohmann::ordered_json documents = nullptr;  // a list, or null
  // chat_template_kwargs: variables for the template.
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  bool add_generation_prompt = true;
  // The prompt ends within the last message, which the model continues.
  bool continue_final_message = false;
};

// Immutable: Render() can be called from several threads. Renders text as vLLM 0.33 and
// transformers 5.23 do. The one known difference: templates outside the subset of text/template are
// refused.
class ChatTemplate {
 public:
  // The template of a model's directory: chat_template.jinja, else the field chat_template of
  // tokenizer_config.json. The field is a template, or a list of named ones. Requests with tools
  // then take "tool_use" if the list has it, all other requests "default". Special tokens come from
  // tokenizer_config.json. Throws InputError (usage) if there is no template, or one outside the
  // subset.
  static ChatTemplate OfModel(const std::filesystem::path& directory);

  // One of NamesOfTemplates(), with the special tokens of a model, which may be {}: an object such
  // as {"bos_token": "<s>"}.
  static ChatTemplate Named(std::string_view name, nlohmann::ordered_json special_tokens);

  // The template with this text; `where` stands in messages.
  ChatTemplate(std::string source, std::string where, nlohmann::ordered_json special_tokens);

  // Replaces the clock of strftime_now(), by default the system's local time.
  void SetClock(jinja::LocalClock clock) { clock_ = std::move(clock); }

  // Throws InputError (data); its message is the text of an answer with status 400.
  [[nodiscard]] std::string Render(const ChatPrompt& prompt) const;

 private:
  struct Variant {
    Template parsed;
    std::string source;
  };

  ChatTemplate() = default;
  [[nodiscard]] nlohmann::ordered_json Variables(const ChatPrompt& prompt) const;

  std::optional<Variant> default_;
  std::optional<Variant> tool_use_;
  nlohmann::ordered_json special_tokens_;
  jinja::LocalClock clock_;
};

// The special tokens that tokenizer_config.json of a model's directory names, by their fields
// (bos_token, eos_token, ...); {} if there is no such file.
nlohmann::ordered_json SpecialTokensOf(const std::filesystem::path& directory);

}  // namespace twin::text
