#include "apps/serve/protocol/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "apps/serve/text/json_part.h"

namespace twin::serve {
namespace {

// vLLM's smallest temperature that is not greedy: below it, probabilities overflow.
constexpr double kTemperatureMin = 0.01;
constexpr std::int64_t kTopKMax = std::numeric_limits<std::int32_t>::max();

// Refuses, or warns of, a value that no sampler reads.
void RequireGreedy(FieldReader& reader, std::string_view name, const run::ServedModel& model) {
  if (model.emulated) {
    reader.Warn(name);
  } else {
    reader.Fail(
        ApiErrorKind::kValue, name,
        fmt::format("{}: this model is decoded greedily; allowed: 0, or leave it out", name));
  }
}

using Json = nlohmann::ordered_json;

void CheckParts(FieldReader& reader, const std::string& where, const Json& content) {
  for (const Json& part : content) {
    const bool is_text = part.is_object() &&
                         (!part.contains("type") || text::IsText(part["type"], "text")) &&
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
  // Templates of most models know no other name for the role.
  if (text::IsText(message["role"], "developer")) message["role"] = "system";
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

void ReadUnsampled(FieldReader& reader, std::string_view name, double inert,
                   const run::ServedModel& model) {
  const FieldReader::Json* value = reader.Find(name);
  if (value == nullptr || (value->is_number() && value->get<double>() == inert)) return;
  if ((value->is_object() || value->is_array()) && value->empty()) return;
  if (model.emulated) {
    reader.Warn(name);
  } else {
    reader.Fail(ApiErrorKind::kValue, name,
                fmt::format("{} is not served; allowed: {}, or leave it out", name, inert));
  }
}

void ReadSampling(FieldReader& reader, const SamplingRanges& ranges, const run::ServedModel& model,
                  run::Sampling& sampling) {
  const auto temperature =
      reader.Number("temperature", ranges.temperature_min, ranges.temperature_max, ranges.open);
  const auto top_p = reader.Number("top_p", 0, 1, ranges.open);
  const auto top_k = reader.Integer("top_k", ranges.open ? 1 : -1, kTopKMax);
  const auto min_p = reader.Number("min_p", 0, 1);
  if (top_p && *top_p == 0) {
    reader.Fail(ApiErrorKind::kValue, "top_p", "top_p is 0; allowed: above 0 and up to 1");
  }
  if (!model.samples) {
    if (temperature.value_or(0) != 0) RequireGreedy(reader, "temperature", model);
    if (top_p && *top_p != 1 && model.emulated) reader.Warn("top_p");
    if (top_k && *top_k > 0 && model.emulated) reader.Warn("top_k");
    if (min_p && *min_p != 0 && model.emulated) reader.Warn("min_p");
    return;
  }
  sampling.temperature = temperature.value_or(1.0);
  if (sampling.temperature == 0) return;  // greedy: the other fields have no effect
  sampling.temperature = std::max(sampling.temperature, kTemperatureMin);
  sampling.top_p = top_p.value_or(1);
  sampling.top_k = static_cast<std::int32_t>(std::max<std::int64_t>(0, top_k.value_or(0)));
  sampling.min_p = min_p.value_or(0);
}

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
    // Only the default gives way, not a value that the client gave.
    if (reader.Find("add_generation_prompt") != nullptr) {
      reader.Fail(ApiErrorKind::kValue, "continue_final_message",
                  "continue_final_message and add_generation_prompt exclude each other");
    }
    chat.add_generation_prompt = false;
  }
  return chat;
}

}  // namespace twin::serve
