#include "config/case_parameters.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>

#include <memory>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/names.h"
#include "config/overlay.h"
#include "config/policy.bind.h"
#include "config/policy.pb.h"
#include "core/input_error.h"
#include "core/nearest_names.h"
#include "core/printable.h"
#include "sched/policy/policy_config.h"

namespace twin {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using nlohmann::json;

[[noreturn]] void Refuse(const std::string& where, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, where, what);
}

// The first parameter that differs from the entry's value for it; nullptr if none does.
const RenamedParameter* Mismatch(const CaseName& entry, const json& params) {
  for (const RenamedParameter& renamed : entry.renamed) {
    if (renamed.only.empty()) continue;
    const auto found = params.find(std::string(renamed.from));
    if (found != params.end() && *found != json::parse(renamed.only)) return &renamed;
  }
  return nullptr;
}

// The entry of this name that the parameters select.
PolicyCase FindCase(std::string_view name, const json& params, const std::string& where) {
  std::vector<std::string_view> names;
  std::vector<std::string> mismatches;
  for (const PolicyCase& entry : PolicyCases()) {
    names.push_back(entry.name.name);
    if (entry.name.name != name) continue;
    const RenamedParameter* mismatch = Mismatch(entry.name, params);
    if (mismatch == nullptr) return entry;
    mismatches.push_back(fmt::format("{}: {}", mismatch->from, mismatch->only));
  }
  if (!mismatches.empty()) {
    Refuse(where, fmt::format("policy \"{}\" is not defined for these params; allowed: {}", name,
                              fmt::join(mismatches, " or ")));
  }
  Refuse(where, fmt::format("no policy \"{}\"; nearest {}; allowed: {}", Printable(name),
                            NearestNames(name, names), fmt::join(names, ", ")));
}

std::string_view NameInMessage(const CaseName& entry, const std::string& param) {
  for (const RenamedParameter& renamed : entry.renamed) {
    if (renamed.from == param) return renamed.to;
  }
  return param;
}

// The member of the oneof for the policy, set to its defaults.
Message& Choose(std::string_view policy, proto::Policy& message) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(std::string(policy));
  CHECK(field != nullptr);
  return *message.GetReflection()->MutableMessage(&message, field);
}

void SetParam(const std::string& name, const json& value, const std::string& where,
              Message& message) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  if (!field)
    Refuse(where, DescribeUnknownField(name, *message.GetDescriptor(), *message.GetDescriptor()));
  const bool known_word =
      !field->enum_type() ||
      (value.is_string() && field->enum_type()->FindValueByName(value.get<std::string>()));
  google::protobuf::util::Status status;
  const std::unique_ptr<Message> parsed(message.New());
  if (known_word) {
    status = google::protobuf::util::JsonStringToMessage(json{{name, value}}.dump(), parsed.get());
  }
  if (!known_word || !status.ok()) {
    Refuse(where, fmt::format("{} takes {}, is {}", name, DescribeAllowed(*field), value.dump()));
  }
  Overlay(*parsed, message, "none");
}

}  // namespace

PolicyConfig ReadCaseParameters(std::string_view policy, const std::string& params,
                                const std::string& where) {
  const json object = json::parse(params, nullptr, false);
  if (!object.is_object()) Refuse(where, "params must be a JSON object");
  const PolicyCase entry = FindCase(policy, object, where);
  proto::Policy message;
  Message& chosen = Choose(entry.policy, message);
  const json preset = json::parse(entry.name.parameters);
  for (const auto& [param, value] : preset.items()) {
    SetParam(param, value, where, chosen);
  }
  for (const auto& [param, value] : object.items()) {
    const std::string_view name = NameInMessage(entry.name, param);
    if (name.empty() || value.is_null()) continue;
    SetParam(std::string(name), value, where, chosen);
  }
  CheckRules(message, where);
  PolicyConfig config;
  FromMessage fields(message);
  Bind(fields, config);
  try {
    Validate(config);
  } catch (const InputError& error) {
    Refuse(where, error.what());
  }
  return config;
}

void CheckRanges(const PolicyConfig& config) {
  proto::Policy message;
  ToMessage fields(message);
  PolicyConfig copy = config;
  Bind(fields, copy);
  CheckRules(message, "policy");
}

}  // namespace twin
