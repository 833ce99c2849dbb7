#include "run/judge/host_messages.h"

#include <span>
#include <utility>

namespace twin::run {

void PutFile(MessageWriter& writer, const PolicyFile& file) {
  writer.PutText(file.path);
  writer.PutText(file.class_name.value_or(""));
  writer.PutText(file.engine.value_or(""));
  writer.Put(static_cast<std::uint32_t>(file.parameters.size()));
  for (const PolicyParameter& parameter : file.parameters) {
    writer.PutText(parameter.name);
    writer.PutText(parameter.value);
  }
}

PolicyFile GetFile(MessageReader& reader) {
  PolicyFile file;
  file.path = reader.GetText();
  const std::string class_name = reader.GetText();
  if (!class_name.empty()) file.class_name = class_name;
  const std::string engine = reader.GetText();
  if (!engine.empty()) file.engine = engine;
  const auto parameters = reader.Get<std::uint32_t>();
  for (std::uint32_t i = 0; i < parameters; ++i) {
    std::string name = reader.GetText();
    file.parameters.push_back({std::move(name), reader.GetText()});
  }
  return file;
}

PlanAnswer GetAnswer(MessageReader& reader) {
  PlanAnswer answer;
  const auto has_plan = reader.Get<std::uint8_t>();
  if (has_plan > 1) throw BadMessage();
  answer.has_plan = has_plan == 1;
  answer.wake_at = reader.Get<std::int64_t>();
  answer.free_blocks = reader.Get<std::int32_t>();
  return answer;
}

void PutAnswer(MessageWriter& writer, const PlanAnswer& answer) {
  writer.Put(static_cast<std::uint8_t>(answer.has_plan));
  writer.Put(answer.wake_at);
  writer.Put(answer.free_blocks);
}

void PutCalls(MessageWriter& writer, const StepCalls& calls) {
  writer.PutList(std::span<const StepCall>(calls.calls));
  writer.PutList(std::span<const RequestId>(calls.decodes));
}

void GetCalls(MessageReader& reader, StepCalls& calls) {
  reader.GetList(calls.calls);
  reader.GetList(calls.decodes);
  for (const StepCall& call : calls.calls) {
    if (call.kind > StepCall::Kind::kPublishPrefix) throw BadMessage();
  }
}

}  // namespace twin::run
