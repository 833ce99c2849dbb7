#include "config/engine_settings.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/policy.pb.h"
#include "config/servers/servers.h"
#include "core/input_error.h"
#include "core/number_text.h"

namespace twin {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr std::string_view kRelease = "release";
constexpr std::string_view kStages = "pipeline_parallel_size";
constexpr std::string_view kAsync = "async_scheduling";

// The text of a parameter; a message has none.
std::string ValueText(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return std::to_string(reflection.GetInt32(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, &field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return ShortestText(reflection.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.GetEnum(message, &field)->name();
    default:
      return "";
  }
}

bool HasParameter(const proto::OwnPolicy& own, std::string_view name) {
  return std::ranges::any_of(own.parameters(),
                             [&](const auto& known) { return known.name() == name; });
}

// Adds the fields but those of the names in `without`.
void Give(const Message& settings, std::span<const std::string_view> without,
          proto::OwnPolicy& own) {
  std::vector<const FieldDescriptor*> fields;
  settings.GetReflection()->ListFields(settings, &fields);
  for (const FieldDescriptor* const field : fields) {
    const std::string& name = field->name();
    if (std::ranges::find(without, name) != without.end() || HasParameter(own, name)) continue;
    // The scheduler of one stage has no such parameter.
    if (name == kStages && ValueText(settings, *field) == "1") continue;
    proto::OwnPolicy::Parameter& parameter = *own.add_parameters();
    parameter.set_name(name);
    parameter.set_value(ValueText(settings, *field));
  }
}

// Refuses rules of another release than the engine's.
void RequireRelease(const proto::VllmV1Policy& settings, const proto::OwnPolicy& own) {
  if (!settings.has_release()) return;
  const std::optional<ServerDecisions> decisions = DecisionsOfServer(own.engine());
  std::string rules = decisions ? fmt::format("v{}", decisions->release) : "";
  std::ranges::replace(rules, '.', '_');
  const std::string& asked = proto::VllmV1Policy::Release_Name(settings.release());
  if (asked == rules) return;
  throw InputError(InputError::Kind::kUsage, "policy.vllm_v1.release",
                   fmt::format("is {}, but {} decides; allowed: {}without it", asked, own.engine(),
                               rules.empty() ? "" : rules + ", or "));
}

}  // namespace

void GiveSettings(const proto::Policy& policy, proto::OwnPolicy& own) {
  if (policy.kind_case() == proto::Policy::kVllmV1) {
    RequireRelease(policy.vllm_v1(), own);
    constexpr std::string_view kWithout[] = {kRelease};
    return Give(policy.vllm_v1(), kWithout, own);
  }
  if (policy.kind_case() == proto::Policy::KIND_NOT_SET) return;
  std::vector<const FieldDescriptor*> kinds;
  policy.GetReflection()->ListFields(policy, &kinds);
  const Message& settings = policy.GetReflection()->GetMessage(policy, kinds.front());
  std::vector<const FieldDescriptor*> fields;
  settings.GetReflection()->ListFields(settings, &fields);
  if (fields.empty()) return;
  throw InputError(
      InputError::Kind::kUsage,
      fmt::format("policy.{}.{}", kinds.front()->name(), fields.front()->name()),
      fmt::format(
          "cannot be given to the scheduler of {}; allowed: the settings of policy.vllm_v1, "
          "or --unset policy.{}",
          own.engine(), kinds.front()->name()));
}

void GiveServerSettings(const proto::Policy& policy, proto::OwnPolicy& own) {
  if (policy.kind_case() != proto::Policy::kVllmV1) return;
  const std::string_view without[] = {kRelease, own.has_class_() ? kAsync : kRelease};
  Give(policy.vllm_v1(), without, own);
}

}  // namespace twin
