#include "config/experiment_config.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <utility>

#include "config/experiment.pb.h"
#include "config/field_needs.h"
#include "config/fill_defaults.h"
#include "config/hand_bindings.h"
#include "config/overlay.h"
#include "config/override.h"
#include "config/replica_groups.h"
#include "config/text_message.h"
#include "core/input_error.h"

namespace twin {
namespace {

constexpr std::uint32_t kSchemaVersion = 1;

proto::Experiment MessageOf(const ExperimentConfig& config) {
  proto::Experiment message;
  message.set_schema_version(kSchemaVersion);
  ExperimentConfig copy = config;
  ToMessage fields(message);
  Bind(fields, copy);
  if (!config.cost_given && IsReal(config.world)) {
    message.clear_cost();
  }
  if (config.system.groups.empty()) return message;
  const proto::Policy policy = message.policy();
  ClearSharedByGroups(message);
  if (!config.policy_file) return message;
  *message.mutable_policy() = policy;
  for (proto::ReplicaGroup& group : *message.mutable_system()->mutable_replica_groups()) {
    group.clear_policy();
  }
  return message;
}

// Whether the experiment is valid and resolves to an equal one.
bool ResolvesTo(const proto::Experiment& asked, std::shared_ptr<const OwnPolicy> own_policy,
                const proto::Experiment& resolved) {
  try {
    const ExperimentConfig config = ConfigOf(asked, "experiment", true, std::move(own_policy));
    return PrintText(MessageOf(config)) == PrintText(resolved);
  } catch (const InputError&) {
    return false;
  }
}

std::string NumberText(const proto::Hardware& message,
                       const google::protobuf::FieldDescriptor& field) {
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(message, &field, -1, &text);
  return text;
}

// Adds a device for each number of `set`, with only this number changed. Leaves out numbers that
// `named`, the device that the experiment names, has anyway.
void AddChanged(const proto::Hardware& set, const std::string& where, const HardwareSpec& named,
                const HardwareSpec& device, std::vector<ChangedHardware>& changed) {
  const proto::Hardware message = MessageOf(device);
  const proto::Hardware anyway = MessageOf(named);
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  set.GetReflection()->ListFields(set, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    proto::Hardware other = message;
    if (NumberText(set, *field) == NumberText(anyway, *field)) continue;
    if (!HalveNumber(*field, other)) continue;
    HardwareSpec spec = device;
    FromMessage from(other);
    Bind(from, spec);
    changed.push_back({where + field->name(), spec});
  }
}

}  // namespace

std::vector<std::string> SettingsWithoutEffect(const ExperimentConfig& config) {
  if (config.asked == nullptr) return {};
  // Resolves `asked` instead of using `config`, in which a run fills in measurements.
  proto::Experiment asked = *config.asked;
  asked.set_name(config.name);
  const proto::Experiment resolved =
      MessageOf(ConfigOf(asked, "experiment", true, config.own_policy));
  std::vector<std::string> lines;
  for (const UnmetNeed& unmet : UnmetNeeds(asked, resolved)) {
    proto::Experiment without = asked;
    ApplyOverride("!" + unmet.field, without);
    if (!ResolvesTo(without, config.own_policy, resolved)) {
      lines.push_back(fmt::format("{} has no effect: it needs {}", unmet.field, unmet.need));
    }
  }
  return lines;
}

std::optional<bool> IsSetByUser(const ExperimentConfig& config, std::string_view path) {
  if (config.asked == nullptr) return std::nullopt;
  return IsSet(path, *config.asked);
}

std::vector<ChangedHardware> HardwareWithOneNumberChanged(const ExperimentConfig& config) {
  if (config.asked == nullptr || !config.system.groups.empty()) return {};
  const proto::System& system = config.asked->system();
  std::vector<ChangedHardware> changed;
  const HardwareSpec& device = config.system.hardware_spec;
  // Only with a measured cost model: one that reads no sheet at all says nothing about this sheet.
  const bool is_path = system.hardware().find('/') != std::string::npos;
  if (is_path && sim::TraitsOf(config.cost).is_measured) {
    proto::Hardware sheet;
    ParseText(ReadTextFile(system.hardware()), {system.hardware()}, sheet);
    AddChanged(sheet, system.hardware() + ": ", {}, device, changed);
  }
  AddChanged(system.hardware_spec(), "system.hardware_spec.", NamedHardware(system.hardware()),
             device, changed);
  return changed;
}

namespace {

// The first line of the resolved configuration of an own policy.
constexpr std::string_view kBeforeOwnPolicy = "# `policy` did not decide: ";
constexpr std::string_view kBehindOwnPolicy = " did, a policy of the caller.\n";

}  // namespace

void LoadOwnPolicy(ExperimentConfig& config) {
  if (config.policy_file && config.own_policy == nullptr) {
    config.own_policy = LoadPolicy(*config.policy_file);
    // A file of Python may leave open which class it is.
    const bool is_python = config.policy_file->path.ends_with(".py");
    if (is_python && !config.policy_file->class_name) {
      config.policy_file->class_name = config.own_policy->name;
    }
  }
}

std::string WriteResolved(const ExperimentConfig& config) {
  const proto::Experiment message = MessageOf(config);
  const std::string text = PrintText(message);
  if (config.own_policy == nullptr || config.policy_file) return text;
  return fmt::format("{}{}{}{}", kBeforeOwnPolicy, config.own_policy->name, kBehindOwnPolicy, text);
}

std::string OwnPolicyOf(std::string_view resolved) {
  const std::size_t end = resolved.find(kBehindOwnPolicy);
  if (!resolved.starts_with(kBeforeOwnPolicy) || end == std::string_view::npos) return "";
  return std::string(resolved.substr(0, end).substr(kBeforeOwnPolicy.size()));
}

PolicyTraits TraitsOf(const ExperimentConfig& config) {
  return config.own_policy != nullptr ? config.own_policy->traits : TraitsOf(config.policy);
}

}  // namespace twin
