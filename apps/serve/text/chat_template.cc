#include "apps/serve/text/chat_template.h"

#include <fmt/format.h>

#include <array>
#include <ctime>

#include "apps/serve/text/chat_messages.h"
#include "apps/serve/text/named_templates.h"
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

// A token is a text, or an object that has the text as content.
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
    if (entry["name"] == std::string(name)) return entry["template"].get<std::string>();
  }
  return std::nullopt;
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
