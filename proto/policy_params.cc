#include "proto/policy_params.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>

#include <array>
#include <memory>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/input_error.h"
#include "core/nearest_names.h"
#include "core/printable.h"
#include "proto/names.h"
#include "proto/overlay.h"
#include "proto/policy.pb.h"
#include "proto/policy_binding.h"
#include "proto/text_message.h"

namespace twin {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using nlohmann::json;

struct Renamed {
  std::string_view from;
  std::string_view to;  // empty: follows from other parameters, is passed over
};

// One name of a scheduling case: the policy that it means, in text format, and its parameters
// under other names.
struct CaseName {
  std::string_view name;
  const char* preset;
  std::span<const Renamed> renamed;
};

constexpr std::array kDerived = {Renamed{"watermark_blocks", ""}};
constexpr std::array kOrcaParams = {Renamed{"n_slots", ""}};
constexpr std::array kSarathiOrcaParams = {
    Renamed{"max_num_seqs", "max_bs"}, Renamed{"pipeline_parallel_size", "n_workers"},
    Renamed{"watermark", ""}, Renamed{"watermark_blocks", ""}};
constexpr std::array kSarathiStaticParams = {
    Renamed{"max_num_seqs", "max_batch_size"}, Renamed{"pipeline_parallel_size", ""},
    Renamed{"watermark", ""}, Renamed{"watermark_blocks", ""}};

constexpr std::array kCaseNames = {
    CaseName{"static", "static {}", {}},
    CaseName{"static_padded", "static { padded: true }", {}},
    CaseName{"orca", "orca {}", kOrcaParams},
    CaseName{"vllm_v0", "vllm_v0 {}", kDerived},
    CaseName{"vllm_v1", "vllm_v1 { release: v0_15_1 }", {}},
    CaseName{"vllm_v1_033", "vllm_v1 { release: v0_33_0 }", {}},
    CaseName{"sarathi", "sarathi {}", kDerived},
    CaseName{"sarathi_orca", "orca { reservation: model prefills_first: true }",
             kSarathiOrcaParams},
    CaseName{"sarathi_static", "static { padded: false }", kSarathiStaticParams},
    CaseName{"splitfuse", "splitfuse {}", {}},
    CaseName{"mii_splitfuse", "splitfuse {}", {}},
};

[[noreturn]] void Refuse(const std::string& where, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, where, what);
}

const CaseName& FindCaseName(std::string_view policy, const std::string& where) {
  std::vector<std::string_view> names;
  std::string all;
  for (const CaseName& entry : kCaseNames) {
    if (entry.name == policy) return entry;
    names.push_back(entry.name);
    all += (all.empty() ? "" : ", ") + std::string(entry.name);
  }
  const std::string nearest = NearestNames(policy, names);
  Refuse(where,
         "no policy \"" + Printable(policy) + "\"; nearest " + nearest + "; allowed: " + all);
}

std::string_view NameInMessage(const CaseName& entry, const std::string& param) {
  for (const Renamed& renamed : entry.renamed) {
    if (renamed.from == param) return renamed.to;
  }
  return param;
}

// The member of the oneof that is set.
Message& Chosen(proto::Policy& policy) {
  std::vector<const FieldDescriptor*> set;
  policy.GetReflection()->ListFields(policy, &set);
  CHECK(set.size() == 1);
  return *policy.GetReflection()->MutableMessage(&policy, set[0]);
}

void SetParam(const std::string& name, const json& value, const std::string& where,
              Message& message) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  if (!field) Refuse(where, DescribeUnknownField(name, *message.GetDescriptor()));
  const bool known_word =
      !field->enum_type() ||
      (value.is_string() && field->enum_type()->FindValueByName(value.get<std::string>()));
  google::protobuf::util::Status status;
  const std::unique_ptr<Message> parsed(message.New());
  if (known_word) {
    status = google::protobuf::util::JsonStringToMessage(json{{name, value}}.dump(), parsed.get());
  }
  if (!known_word || !status.ok()) {
    Refuse(where, name + " takes " + DescribeAllowed(*field) + ", is " + value.dump());
  }
  Overlay(*parsed, message);
}

}  // namespace

PolicyConfig ReadPolicyParams(std::string_view policy, const std::string& params,
                              const std::string& where) {
  const CaseName& entry = FindCaseName(policy, where);
  const json object = json::parse(params, nullptr, false);
  if (!object.is_object()) Refuse(where, "params must be a JSON object");
  proto::Policy message;
  ParseText(entry.preset, {where, false}, message);
  for (const auto& [param, value] : object.items()) {
    const std::string_view name = NameInMessage(entry, param);
    if (name.empty() || value.is_null()) continue;
    SetParam(std::string(name), value, where, Chosen(message));
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

}  // namespace twin
