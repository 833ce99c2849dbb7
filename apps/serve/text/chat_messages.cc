#include "apps/serve/text/chat_messages.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include <nlohmann/json.hpp>

#include "apps/serve/text/template/python_text.h"
#include "apps/serve/text/template/value_text.h"
#include "core/input_error.h"
#include "core/printable.h"

namespace twin::text {
namespace {

using nlohmann::ordered_json;

// The mark ends with a space, so that it tells a template that trims a message from others.
constexpr std::string_view kMark = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view kTrimmedMark = kMark.substr(0, kMark.size() - 1);

[[noreturn]] void RefuseMessage(const std::string& where, const std::string& what) {
  throw InputError(InputError::Kind::kData, where, what);
}

std::string PartText(const ordered_json& part, const std::string& where) {
  if (part.is_string()) return part.get<std::string>();
  if (!part.is_object()) RefuseMessage(where, "must be an object with type and text");
  const auto type = part.find("type");
  if (type != part.end() && (!type->is_string() || *type != "text")) {
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
    if (arguments.is_null() || arguments == "") {
      arguments = ordered_json::object();
    } else if (arguments.is_string()) {
      arguments = jinja::ParseBounded(arguments.get<std::string>());
      if (arguments.is_discarded()) {
        RefuseMessage(call_where + ".function.arguments", "must be an object as JSON");
      }
    }
  }
}

}  // namespace

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
    if (*role == "developer" && !form.knows_developer) *role = "system";
    const auto content = message.find("content");
    message["content"] = FormContent(content == message.end() ? nullptr : &*content,
                                     form.keeps_parts, where + ".content");
    ParseArguments(message, where);
    formed.push_back(WithReasoning(std::move(message)));
  }
  return formed;
}

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

}  // namespace twin::text
