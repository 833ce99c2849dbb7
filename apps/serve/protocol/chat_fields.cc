// Messages and what else a chat template reads.
#include <fmt/format.h>

#include "apps/serve/protocol/api_request.h"
#include "apps/serve/protocol/field_reader.h"

namespace twin::serve {
namespace {

using Json = nlohmann::ordered_json;

void CheckParts(FieldReader& reader, const std::string& where, const Json& content) {
  for (const Json& part : content) {
    const bool is_text = part.is_object() && part.value("type", Json("text")) == "text" &&
                         part.contains("text") && part["text"].is_string();
    if (is_text) continue;
    return reader.Fail(ApiErrorKind::kValue, where, where + ": only parts of text are served");
  }
}

void CheckMessage(FieldReader& reader, std::size_t index, Json& message) {
  const std::string where = fmt::format("messages.{}", index);
  if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
    return reader.Fail(ApiErrorKind::kSchema, where, where + " must be an object with a role");
  }
  // Templates of most models know no other name for it.
  if (message["role"] == "developer") message["role"] = "system";
  if (message.contains("reasoning_content")) {
    message["reasoning"] = message["reasoning_content"];
    message.erase("reasoning_content");
  }
  if (!message.contains("content")) message["content"] = nullptr;
  Json& content = message["content"];
  if (content.is_array()) {
    CheckParts(reader, where + ".content", content);
  } else if (!content.is_string() && !content.is_null()) {
    reader.Fail(ApiErrorKind::kSchema, where + ".content",
                where + ".content must be a text or a list of parts");
  }
}

}  // namespace

ChatPrompt ReadChatPrompt(FieldReader& reader) {
  ChatPrompt chat;
  const Json* messages = reader.Find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    reader.Fail(ApiErrorKind::kSchema, "messages",
                "messages must be a list of at least one message");
    return chat;
  }
  if (messages->size() > kMessagesMax) {
    reader.Fail(ApiErrorKind::kValue, "messages",
                fmt::format("{} messages; allowed: at most {}", messages->size(), kMessagesMax));
    return chat;
  }
  chat.messages = *messages;
  for (std::size_t i = 0; i < chat.messages.size(); ++i) CheckMessage(reader, i, chat.messages[i]);
  if (const Json* tools = reader.Find("tools"); tools != nullptr && tools->is_array()) {
    chat.tools = *tools;
  }
  if (const Json* documents = reader.Find("documents")) chat.documents = *documents;
  if (const Json* variables = reader.Find("chat_template_kwargs")) {
    if (!variables->is_object()) {
      reader.Fail(ApiErrorKind::kSchema, "chat_template_kwargs",
                  "chat_template_kwargs must be an object");
    } else {
      chat.variables = *variables;
    }
  }
  if (const auto effort = reader.Text("reasoning_effort")) {
    chat.variables["reasoning_effort"] = *effort;
  }
  chat.add_generation_prompt = reader.Boolean("add_generation_prompt").value_or(true);
  chat.continue_final_message = reader.Boolean("continue_final_message").value_or(false);
  if (chat.continue_final_message && chat.add_generation_prompt) {
    // The default gives way; what a client asked for does not.
    if (reader.Find("add_generation_prompt") != nullptr) {
      reader.Fail(ApiErrorKind::kValue, "continue_final_message",
                  "continue_final_message and add_generation_prompt exclude each other");
    }
    chat.add_generation_prompt = false;
  }
  return chat;
}

}  // namespace twin::serve
