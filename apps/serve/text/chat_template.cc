#include "apps/serve/text/chat_template.h"

#include <fmt/format.h>

#include <array>
#include <ctime>
#include <string_view>

#include <nlohmann/json.hpp>

#include "apps/serve/text/json_part.h"
#include "apps/serve/text/named_templates.h"
#include "apps/serve/text/template/python_text.h"
#include "apps/serve/text/template/template.h"
#include "apps/serve/text/template/value_text.h"
#include "core/files/input_file.h"
#include "core/input_error.h"
#include "core/printable.h"

namespace twin::text {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr const char* kTemplateFile = "chat_template.jinja";
constexpr std::size_t kFileBytesMax = 64 << 20;

std::tm SystemLocalTime() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

[[noreturn]] void RefuseModel(const std::string& where, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, where, what);
}

std::string ReadText(const fs::path& path) {
  return ReadFile(path, kFileBytesMax, InputError::Kind::kUsage);
}

// {} if there is no such file.
ordered_json ReadConfig(const fs::path& directory) {
  const fs::path path = directory / kConfigFile;
  if (!fs::exists(path)) return ordered_json::object();
  ordered_json config = ordered_json::parse(ReadText(path), nullptr, false);
  if (!config.is_object()) RefuseModel(path.string(), "must be a JSON object");
  return config;
}

// The special tokens of a configuration, each a text or an object that has the text as content.
ordered_json SpecialTokens(const ordered_json& config) {
  constexpr std::array<const char*, 7> kFields = {
      "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
  ordered_json tokens = ordered_json::object();
  for (const char* const field : kFields) {
    const auto found = config.find(field);
    if (found == config.end()) continue;
    const bool is_object = found->is_object() && found->contains("content");
    const ordered_json& text = is_object ? found->at("content") : *found;
    if (text.is_string()) tokens[field] = text;
  }
  return tokens;
}

// The text of the template `name` of a list of {name, template}.
std::optional<std::string> TemplateOfName(const ordered_json& list, std::string_view name,
                                          const std::string& where) {
  for (const ordered_json& entry : list) {
    const bool sound = entry.is_object() && entry.contains("name") && entry.contains("template") &&
                       entry["name"].is_string() && entry["template"].is_string();
    if (!sound) RefuseModel(where, "chat_template must be a text, or a list of {name, template}");
    if (IsText(entry["name"], name)) return entry["template"].get<std::string>();
  }
  return std::nullopt;
}

// How a template expects messages.
struct MessageForm {
  // The template visits the parts of a content. Otherwise the parts are joined by line ends.
  bool keeps_parts = false;
  // The template knows the role developer. Otherwise the role becomes system.
  bool knows_developer = false;
};

// Ends with a space, which shows whether the template trims messages.
constexpr std::string_view kMark = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view kTrimmedMark = kMark.substr(0, kMark.size() - 1);

[[noreturn]] void RefuseMessage(const std::string& where, const std::string& what) {
  throw InputError(InputError::Kind::kData, where, what);
}

std::string PartText(const ordered_json& part, const std::string& where) {
  if (part.is_string()) return part.get<std::string>();
  if (!part.is_object()) RefuseMessage(where, "must be an object with type and text");
  const auto type = part.find("type");
  if (type != part.end() && !IsText(*type, "text")) {
    RefuseMessage(where + ".type",
                  fmt::format("{} is not supported; allowed is text",
                              type->is_string() ? Printable(type->get<std::string>()) : "it"));
  }
  const auto text = part.find("text");
  if (text == part.end() || !text->is_string()) RefuseMessage(where + ".text", "must be a text");
  return text->get<std::string>();
}

ordered_json FormContent(const ordered_json* content, bool keeps_parts, const std::string& where) {
  if (content == nullptr || content->is_null()) return "";
  if (content->is_string()) return *content;
  if (!content->is_array()) RefuseMessage(where, "must be a text, null, or a list of parts");
  ordered_json parts = ordered_json::array();
  std::string joined;
  for (std::size_t i = 0; i < content->size(); ++i) {
    std::string text = PartText((*content)[i], fmt::format("{}[{}]", where, i));
    if (i > 0) joined += '\n';
    joined += text;
    parts.push_back({{"type", "text"}, {"text", std::move(text)}});
  }
  return keeps_parts ? parts : ordered_json(joined);
}

// Templates read the reasoning of an earlier answer under one of three names.
ordered_json WithReasoning(ordered_json message) {
  constexpr std::array<const char*, 3> kNames = {"reasoning_content", "thinking", "reasoning"};
  for (const char* const name : kNames) {
    const auto found = message.find(name);
    if (found == message.end() || found->is_null()) continue;
    const ordered_json reasoning = *found;
    if (!message.contains("thinking")) message["thinking"] = reasoning;
    message["reasoning_content"] = reasoning;
    break;
  }
  return message;
}

void ParseArguments(ordered_json& message, const std::string& where) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || calls->is_null()) return;
  if (!calls->is_array()) RefuseMessage(where + ".tool_calls", "must be a list");
  for (std::size_t i = 0; i < calls->size(); ++i) {
    ordered_json& call = (*calls)[i];
    const std::string call_where = fmt::format("{}.tool_calls[{}]", where, i);
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) {
      RefuseMessage(call_where, "must be an object with function");
    }
    ordered_json& arguments = call["function"]["arguments"];
    if (arguments.is_null() || IsText(arguments, "")) {
      arguments = ordered_json::object();
    } else if (arguments.is_string()) {
      arguments = jinja::ParseBounded(arguments.get<std::string>());
      if (arguments.is_discarded()) {
        RefuseMessage(call_where + ".function.arguments", "must be an object as JSON");
      }
    }
  }
}

// The messages as vLLM and transformers hand them to a template. An absent or null content is "".
// Reasoning stands under each of its names (reasoning_content, thinking). Arguments of tool calls,
// which the protocol sends as text, are parsed. Throws InputError (data) for elements that are no
// messages, and for parts other than text.
ordered_json FormMessages(const ordered_json& messages, const MessageForm& form) {
  if (!messages.is_array()) RefuseMessage("messages", "must be a list");
  ordered_json formed = ordered_json::array();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string where = fmt::format("messages[{}]", i);
    ordered_json message = messages[i];
    if (!message.is_object()) RefuseMessage(where, "must be an object");
    const auto role = message.find("role");
    if (role == message.end() || !role->is_string())
      RefuseMessage(where + ".role", "must be a text");
    if (IsText(*role, "developer") && !form.knows_developer) *role = "system";
    const auto content = message.find("content");
    message["content"] = FormContent(content == message.end() ? nullptr : &*content,
                                     form.keeps_parts, where + ".content");
    ParseArguments(message, where);
    formed.push_back(WithReasoning(std::move(message)));
  }
  return formed;
}

// continue_final_message as in transformers: marks the end of the last message's content, and cuts
// the rendered prompt at the mark.
class FinalMessage {
 public:
  // Adds the mark. Throws InputError (data) if there is no text to continue.
  explicit FinalMessage(ordered_json& messages);

  // Throws InputError (data) if the template did not print the message.
  [[nodiscard]] std::string Cut(std::string prompt) const;

 private:
  std::string content_;
};

FinalMessage::FinalMessage(ordered_json& messages) {
  if (messages.empty()) {
    RefuseMessage("", "continue_final_message is set, but the conversation is empty");
  }
  ordered_json& content = messages.back()["content"];
  if (content.is_string()) {
    content_ = content.get<std::string>();
    content = content_ + std::string(kMark);
    return;
  }
  if (content.empty()) {
    RefuseMessage("", "continue_final_message is set, but the final message has no text");
  }
  ordered_json& text = content.back()["text"];
  content_ = text.get<std::string>();
  text = content_ + std::string(kMark);
}

std::string FinalMessage::Cut(std::string prompt) const {
  const std::string_view stripped = jinja::Strip(content_, jinja::Sides::kBoth);
  const std::size_t mark = prompt.rfind(kTrimmedMark);
  if (mark == std::string::npos || prompt.find(stripped) == std::string::npos) {
    RefuseMessage("",
                  "continue_final_message is set, but the chat template does not print the final "
                  "message as it is");
  }
  const bool keeps_spaces = std::string_view(prompt).substr(mark).starts_with(kMark);
  prompt.resize(mark);
  if (!keeps_spaces) prompt.resize(jinja::Strip(prompt, jinja::Sides::kRight).size());
  return prompt;
}

}  // namespace

ordered_json SpecialTokensOf(const fs::path& directory) {
  return SpecialTokens(ReadConfig(directory));
}

ChatTemplate::ChatTemplate(std::string source, std::string where, ordered_json special_tokens)
    : default_(Variant{.parsed = Template(source, std::move(where)), .source = source}),
      special_tokens_(std::move(special_tokens)),
      clock_(SystemLocalTime) {}

ChatTemplate ChatTemplate::Named(std::string_view name, ordered_json special_tokens) {
  return ChatTemplate(std::string(NamedTemplate(name)), std::string(name),
                      std::move(special_tokens));
}

ChatTemplate ChatTemplate::OfModel(const fs::path& directory) {
  const ordered_json config = ReadConfig(directory);
  const fs::path file = directory / kTemplateFile;
  if (fs::exists(file)) return ChatTemplate(ReadText(file), file.string(), SpecialTokens(config));
  const std::string where = (directory / kConfigFile).string();
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) {
    RefuseModel(directory.string(),
                fmt::format("the model has no chat template, neither {} nor chat_template in {}; "
                            "name one of {}",
                            kTemplateFile, kConfigFile, NamesOfTemplates()));
  }
  const std::string shown = where + ":chat_template";
  if (found->is_string()) {
    return ChatTemplate(found->get<std::string>(), shown, SpecialTokens(config));
  }
  if (!found->is_array()) {
    RefuseModel(where, "chat_template must be a text, or a list of {name, template}");
  }
  const auto plain = TemplateOfName(*found, "default", where);
  if (!plain) RefuseModel(where, "chat_template names no template default");
  ChatTemplate made(*plain, shown, SpecialTokens(config));
  if (const auto tools = TemplateOfName(*found, "tool_use", where)) {
    made.tool_use_ = Variant{.parsed = Template(*tools, shown + "[tool_use]"), .source = *tools};
  }
  return made;
}

ordered_json ChatTemplate::Variables(const ChatPrompt& prompt) const {
  ordered_json variables = special_tokens_;
  variables["tools"] = prompt.tools;
  variables["documents"] = prompt.documents;
  variables["add_generation_prompt"] = prompt.add_generation_prompt;
  if (!prompt.variables.is_object()) {
    throw InputError(InputError::Kind::kData, "chat_template_kwargs", "must be an object");
  }
  for (const auto& [name, value] : prompt.variables.items()) {
    const bool reserved = name == "messages" || name == "tools" || name == "documents" ||
                          name == "add_generation_prompt" || name == "continue_final_message" ||
                          name == "chat_template" || name == "tokenize";
    if (reserved) {
      throw InputError(InputError::Kind::kData, "chat_template_kwargs",
                       fmt::format("must not have '{}'", Printable(name)));
    }
    variables[name] = value;
  }
  return variables;
}

std::string ChatTemplate::Render(const ChatPrompt& prompt) const {
  if (prompt.add_generation_prompt && prompt.continue_final_message) {
    throw InputError(InputError::Kind::kData, "",
                     "continue_final_message and add_generation_prompt cannot both be true");
  }
  const bool has_tools = prompt.tools.is_array() && !prompt.tools.empty();
  const Variant& variant = has_tools && tool_use_ ? *tool_use_ : *default_;
  const MessageForm form{.keeps_parts = variant.parsed.VisitsContentParts(),
                         .knows_developer = variant.source.find("developer") != std::string::npos};
  ordered_json messages = FormMessages(prompt.messages, form);
  std::optional<FinalMessage> continued;
  if (prompt.continue_final_message) continued.emplace(messages);
  ordered_json variables = Variables(prompt);
  variables["messages"] = std::move(messages);
  std::string text = variant.parsed.Render(variables, clock_);
  return continued ? continued->Cut(std::move(text)) : text;
}

}  // namespace twin::text
