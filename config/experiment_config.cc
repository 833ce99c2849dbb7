#include "config/experiment_config.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "config/content_hash.h"
#include "config/cost_file.h"
#include "config/experiment.pb.h"
#include "config/ffn_hardware.h"
#include "config/field_needs.h"
#include "config/hand_bindings.h"
#include "config/hardware_file.h"
#include "config/machine_defaults.h"
#include "config/models/model_names.h"
#include "config/models/named_model.h"
#include "config/models/served_positions.h"
#include "config/names.h"
#include "config/overlay.h"
#include "config/override.h"
#include "config/replica_groups.h"
#include "config/servers/servers.h"
#include "config/text_message.h"
#include "core/hash.h"
#include "core/input_error.h"
#include "core/nearest_names.h"
#include "sim/devices/memory_defaults.h"
#include "sim/world/acceptance_length.h"

namespace twin {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kSchemaVersion = 1;

[[noreturn]] void Refuse(const std::string& source, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, source, what);
}

std::string Joined(std::span<const std::string_view> names) {
  std::string joined;
  for (const std::string_view name : names) {
    joined += (joined.empty() ? "" : ", ") + std::string(name);
  }
  return joined;
}

// Whether `field` is the field that `path` names, or a part of it.
bool IsAtOrBelow(const std::string& field, const std::string& path) {
  if (!field.starts_with(path)) return false;
  return field.size() == path.size() || field[path.size()] == '.' || field[path.size()] == '[';
}

bool IsPath(const std::string& name) { return name.find('/') != std::string::npos; }

// Runs `read`, and puts `source` before the text of its InputErrors.
template <class Read>
void ReadFrom(const std::string& source, Read read) {
  try {
    read();
  } catch (const InputError& error) {
    const bool usage = error.exit_code() == static_cast<int>(InputError::Kind::kUsage);
    throw InputError(usage ? InputError::Kind::kUsage : InputError::Kind::kData, source,
                     error.what());
  }
}

// Throws if a message that is no file has the fields `base` or `unset`.
void RequireNoBase(const proto::Experiment& message, const std::string& source) {
  if (message.has_base()) Refuse(source, "base: can only stand in a file");
  if (message.unset_size() > 0) {
    Refuse(source, "unset: says what does not hold of a base; allowed: in a file with a base");
  }
}

proto::Experiment LoadLaidOver(const fs::path& path, std::vector<fs::path> chain,
                               std::vector<InputFile>& files);

// The message, whose relative paths start at `folder`, laid over its bases. Errors name `source`.
proto::Experiment LayOver(proto::Experiment message, const std::string& source,
                          const fs::path& folder, std::vector<fs::path> chain,
                          std::vector<InputFile>& files) {
  ResolveFiles(folder, message);
  if (!message.has_base()) {
    RequireNoBase(message, source);
    return message;
  }
  proto::Experiment base = LoadLaidOver(message.base(), std::move(chain), files);
  ReadFrom(source, [&] {
    for (const std::string& path : message.unset()) ApplyOverride("!" + path, base);
    message.clear_base();
    message.clear_unset();
    Overlay(message, base, "unset with its path, which drops what the base says of it");
  });
  return base;
}

// The file laid over its bases. `chain` holds the files that led here; `files` gets every file
// read.
proto::Experiment LoadLaidOver(const fs::path& path, std::vector<fs::path> chain,
                               std::vector<InputFile>& files) {
  const fs::path file = fs::absolute(path).lexically_normal();
  if (std::find(chain.begin(), chain.end(), file) != chain.end()) {
    std::string circle;
    for (const fs::path& link : chain) circle += link.filename().string() + " -> ";
    Refuse(chain.back().string(), "base: a circle: " + circle + file.filename().string());
  }
  proto::Experiment message;
  ParseText(ReadTextFile(path), {path.string()}, message);
  files.push_back({chain.empty() ? "experiment" : "base", file.string()});
  chain.push_back(file);
  return LayOver(std::move(message), path.string(), file.parent_path(), std::move(chain), files);
}

// Replaces 32-bit formats by 16-bit ones: the servers of system.server load 32-bit models so,
// unless told otherwise (vLLM and SGLang: --dtype auto).
void CastTo16Bits(ModelSpec& shape) {
  if (shape.weight_dtype == DType::kFp32) shape.weight_dtype = DType::kBf16;
  if (shape.kv_dtype == DType::kFp32) shape.kv_dtype = DType::kBf16;
}

// The model as the system of `message` reads it. If the system starts with fewer positions than it
// allows, sets max_model_len to the number that it starts with.
ModelConfig NamedModel(proto::Experiment& message) {
  const proto::System& system = message.system();
  if (system.model().empty()) return {};
  ModelConfig model = ReadNamedModel(system.model(), system.model_shape().has_weight_dtype());
  const ServedPositions positions = FindServedPositions(model, PositionRuleOf(message));
  model.shape.max_position = positions.most;
  if (system.has_server()) CastTo16Bits(model.shape);
  const bool given = message.policy().vllm_v1().max_model_len() > 0 || message.policy().has_own() ||
                     system.model_shape().has_max_position();
  if (positions.at_start < positions.most && !given) {
    message.mutable_policy()->mutable_vllm_v1()->set_max_model_len(positions.at_start);
  }
  return model;
}

HardwareSpec NamedHardware(const std::string& hardware) {
  if (hardware.empty()) return {};
  return HardwareFromNameOrFile(hardware);
}

void RequireSections(const proto::Experiment& message, const std::string& source) {
  if (message.policy().kind_case() == proto::Policy::KIND_NOT_SET &&
      !message.system().has_server()) {
    Refuse(source, "policy: is missing; allowed: " +
                       DescribeAllowed(*message.GetDescriptor()->FindFieldByName("policy")));
  }
  const proto::System& system = message.system();
  if (!system.has_model() && !system.has_model_shape()) {
    Refuse(source, "system.model: is missing; allowed: " + Joined(ModelPresetNames()) +
                       ", or the path of a config.json (with a '/')");
  }
  if (!system.has_hardware() && !system.has_hardware_spec()) {
    Refuse(source, "system.hardware: is missing; allowed: " + Joined(HardwarePresetNames()) +
                       ", or the path of a hardware file (with a '/')");
  }
}

// The name of an experiment must be usable as the name of a folder.
void ValidateName(const std::string& name) {
  if (!name.empty() && name != "." && name != ".." && !IsPath(name)) return;
  Refuse("name", "is \"" + name + "\"; allowed: the name of a folder, without '/'");
}

void ValidateMetrics(const RunMetricsConfig& metrics, std::int64_t requests) {
  if (metrics.head_share + metrics.tail_share >= 1) {
    Refuse("metrics.tail_share", "must leave something between it and head_share");
  }
  if (requests == 0 && metrics.head_share + metrics.tail_share > 0) {
    Refuse(metrics.head_share > 0 ? "metrics.head_share" : "metrics.tail_share",
           "is a share of workload.requests, which is not given");
  }
  if (metrics.series_points_max % 2 != 0) Refuse("metrics.series_points_max", "must be even");
}

// Counts the replicas of both pools.
void FillReplicas(SystemConfig& system) {
  if (!system.disaggregation) return;
  const std::int32_t replicas = system.disaggregation->pools.replicas();
  if (system.replicas != 1 && system.replicas != replicas) {
    Refuse("system.replicas",
           fmt::format("is {}; allowed with disaggregation: {}, the sum of prefill_replicas and "
                       "decode_replicas, or none",
                       system.replicas, replicas));
  }
  system.replicas = replicas;
}

void ValidateWorkload(const ExperimentConfig& config) {
  if (const auto* const emulated = std::get_if<EmulatedWorldConfig>(&config.world)) {
    if (emulated->output) ValidateInteger("world.emulated.output", *emulated->output);
  }
  // In worlds that take live requests, the workload is validated only where it is used.
  if (TakesLiveRequests(config.world) && config.workload == WorkloadConfig{}) return;
  Validate(config.workload);
}

void ValidateAll(const ExperimentConfig& config) {
  ValidateName(config.name);
  ValidateWorkload(config);
  Validate(config.system.hardware_spec);
  ValidateFfn(config);
  ValidateMetrics(config.metrics, config.workload.requests);
}

// Writes the rate of the acceptance length, or of the length that was measured for the model, into
// a message that names no rates.
void SetAcceptanceRates(const ExperimentConfig& config, proto::Speculation& message) {
  const SpeculationRules& rules = config.speculation->rules;
  const std::int32_t drafts = rules.num_speculative_tokens;
  std::optional<double> length;
  if (message.has_acceptance_length()) {
    length = message.acceptance_length();
    if (message.acceptance_rates_size() > 0) {
      Refuse("speculation.acceptance_length",
             "is set beside acceptance_rates; allowed: one of them");
    }
    if (*length > drafts + 1) {
      Refuse("speculation.acceptance_length",
             fmt::format("is {}; allowed: at most 1 + num_speculative_tokens, {}", *length,
                         drafts + 1));
    }
  } else if (message.acceptance_rates_size() == 0) {
    length = sim::MeasuredAcceptanceLength(config.system.model_spec.name, rules.method, drafts);
    if (!length && rules.method == SpecMethod::kMtp) {
      Refuse("speculation.acceptance_length",
             fmt::format("is missing; allowed: a length, acceptance_rates, or up to 8 drafts of a "
                         "model with measured lengths: {}",
                         sim::ModelsWithAcceptanceLengths(rules.method)));
    }
  }
  if (!length) return;
  message.clear_acceptance_length();
  message.add_acceptance_rates(sim::AcceptanceRateOf(*length, drafts));
}

// Lets the policy speculate as the message asks.
void BindSpeculation(const proto::Experiment& message, ExperimentConfig& config) {
  if (!message.has_speculation()) return;
  FromMessage fields(message.speculation());
  Bind(fields, config.speculation.emplace());
  const SpeculationConfig& speculation = *config.speculation;
  if (!speculation.draft_model.empty() && speculation.rules.method != SpecMethod::kDraftModel) {
    Refuse("speculation.model", "needs the method draft_model");
  }
  if (speculation.prompt_lookup_min > speculation.prompt_lookup_max) {
    Refuse("speculation.prompt_lookup_min",
           fmt::format("is {}; allowed: at most prompt_lookup_max, {}",
                       speculation.prompt_lookup_min, speculation.prompt_lookup_max));
  }
  if (!speculation.rules.on()) return;
  const ModelSpec& model = config.system.model_spec;
  if (speculation.rules.method == SpecMethod::kMtp && !model.mtp_layer) {
    Refuse("speculation.method",
           fmt::format("is mtp, but {} has no module of multi-token prediction; allowed: ngram, "
                       "eagle, draft_model, or a model with system.model_shape.mtp_layer",
                       model.name));
  }
  const bool is_own = config.own_policy != nullptr || config.policy_file.has_value();
  if (is_own || !SetSpeculation(config.policy, speculation.rules)) {
    Refuse("speculation.num_speculative_tokens",
           fmt::format(
               "policy.{} takes no drafts; allowed: 0, or the policies vllm_v0, vllm_v1 and trtllm",
               config.policy_file ? "own" : TraitsOf(config).name));
  }
}

// Reads policy and model, sets the limits that the policy leaves to the model, and validates both,
// before the defaults of other sections are derived from them.
void BindPolicy(const proto::Experiment& message, ExperimentConfig& config) {
  FromMessage fields(message.policy());
  ChosenPolicy policy{config.policy, config.policy_file};
  Bind(fields, policy);
  FromMessage system(message.system());
  Bind(system, config.system);
  CountStages(message.system(), config.system.parallelism);
  Validate(config.system.model_spec, config.system.parallelism);
  BindSpeculation(message, config);
  ResolveContext(config.policy, config.system.model_spec.max_position);
  ValidateStartUp(config.policy);
}

// Fills in the defaults of the server. `system` holds the specs that model and hardware name;
// fields that the message replaces are applied first.
void FillFromServer(SystemConfig system, proto::Experiment& message) {
  FromMessage fields(message.system());
  Bind(fields, system);
  FillServerDefaults(system.model_spec, system.hardware_spec, system.parallelism, message);
}

// Converts an experiment without replica groups. One that is new, and not that of a recorded run,
// may not allow longer requests than the model, and its policy.own is loaded.
ExperimentConfig ReadEqualReplicas(const proto::Experiment& asked, const std::string& source,
                                   bool is_new, std::shared_ptr<const OwnPolicy> own_policy) {
  RequireSections(asked, source);
  proto::Experiment message = asked;
  ExperimentConfig config;
  config.name = fs::path(source).stem().string();
  config.own_policy = std::move(own_policy);
  ReadFrom(source, [&] {
    const ModelConfig model = NamedModel(message);
    config.system.model_spec = model.shape;
    config.system.model_note = model.format_note;
    config.system.hardware_spec = NamedHardware(message.system().hardware());
    FillFfnHardware(config.system.hardware_spec, *message.mutable_system());
    if (message.system().has_server()) FillFromServer(config.system, message);
    FillShip(config.system, message);
    if (is_new) FillEngineContext(config.system, message);
    BindPolicy(message, config);
    if (config.speculation && config.speculation->rules.on()) {
      SetAcceptanceRates(config, *message.mutable_speculation());
    }
    if (is_new) {
      LoadOwnPolicy(config);
      ValidateContext(config.policy, config.system.model_spec.max_position);
    }
    config.system.memory = sim::MemoryDefaultsFor(TraitsOf(config), config.system.model_spec);
    SetMachineDefaults(config);
    if (message.cost().fitted().has_path()) {
      config.cost = ReadFittedCostFile(message.cost().fitted().path());
    }
    FromMessage fields(message);
    Bind(fields, config);
    FillReplicas(config.system);
    config.cost_given = asked.cost().kind_case() != proto::Cost::KIND_NOT_SET;
    config.input_files = FilesNamedIn(message);
    ValidateAll(config);
  });
  return config;
}

// Refuses groups with policies of their own beside policy.own, which decides for all replicas.
void RequireOnePolicyFile(const proto::Experiment& asked, const std::string& source) {
  for (const proto::ReplicaGroup& group : asked.system().replica_groups()) {
    if (!group.policy().has_own() && !(asked.policy().has_own() && group.has_policy())) continue;
    Refuse(source,
           "system.replica_groups.policy: policy.own decides for all replicas; allowed: "
           "policy.own of the experiment alone, or policies of the registry");
  }
}

ExperimentConfig Convert(const proto::Experiment& asked, const std::string& source, bool is_new,
                         std::shared_ptr<const OwnPolicy> own_policy) {
  CheckRules(asked, source);
  const int groups = asked.system().replica_groups_size();
  if (groups > 0) RequireOnePolicyFile(asked, source);
  if (groups == 0) return ReadEqualReplicas(asked, source, is_new, std::move(own_policy));
  std::vector<ExperimentConfig> of_groups;
  for (int i = 0; i < groups; ++i) {
    of_groups.push_back(ReadEqualReplicas(MessageOfGroup(asked, i),
                                          fmt::format("{}: system.replica_groups[{}]", source, i),
                                          is_new, own_policy));
  }
  ExperimentConfig config = of_groups.front();
  if (!asked.has_name()) config.name = fs::path(source).stem().string();
  config.input_files = FilesNamedIn(asked);
  ReadFrom(source, [&] { FillGroups(asked, of_groups, config.system); });
  return config;
}

// Refuses a rate of 0 without a kind. A resolved experiment has both for arrivals without a rate.
void RequireRate(const proto::Experiment& message, const std::string& source) {
  const proto::Arrivals& arrivals = message.workload().arrivals();
  if (!arrivals.has_rate() || arrivals.rate() > 0 || arrivals.has_kind()) return;
  Refuse(source, "workload.arrivals.rate: is 0; allowed: above 0, with a kind of arrivals");
}

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
    const ExperimentConfig config = Convert(asked, "experiment", true, std::move(own_policy));
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

ExperimentTemplate::ExperimentTemplate(const fs::path& path)
    : source_(path.string()),
      message_(std::make_shared<const proto::Experiment>(LoadLaidOver(path, {}, files_))) {}

ExperimentTemplate ExperimentTemplate::FromText(std::string_view text, const std::string& source) {
  ExperimentTemplate experiment;
  experiment.source_ = source;
  proto::Experiment message;
  ParseText(text, {source}, message);
  message = LayOver(std::move(message), source, fs::current_path(), {}, experiment.files_);
  experiment.message_ = std::make_shared<const proto::Experiment>(std::move(message));
  return experiment;
}

void ExperimentTemplate::Change(std::span<const std::string> changes, const fs::path& folder) {
  auto message = std::make_shared<proto::Experiment>(*message_);
  for (const std::string& change : changes) {
    ApplyOverride(change, *message);
    ResolveFiles(folder, *message);
  }
  RequireNoBase(*message, "--set");
  message_ = std::move(message);
}

ExperimentConfig ExperimentTemplate::With(std::span<const std::string> changes,
                                          const fs::path& folder) const {
  auto message = std::make_shared<proto::Experiment>(*message_);
  for (const std::string& change : changes) ApplyOverride(change, *message);
  if (!changes.empty()) ResolveFiles(folder, *message);
  RequireRate(*message, source_);
  if (own_policy_ != nullptr && message->policy().has_own()) {
    Refuse(source_, "policy.own: a policy of the caller decides; allowed: one of the two");
  }
  ExperimentConfig config = Convert(*message, source_, true, own_policy_);
  config.asked = std::move(message);
  config.input_files.insert(config.input_files.begin(), files_.begin(), files_.end());
  return config;
}

void ExperimentTemplate::CheckChange(std::string_view change) const {
  proto::Experiment message = *message_;
  ApplyOverride(change, message);
  RequireNoBase(message, "--set");
}

std::uint64_t ExperimentTemplate::seed() const { return message_->seed(); }

std::uint64_t ExperimentTemplate::Hash(std::span<const std::string> varied) const {
  proto::Experiment message = *message_;
  std::uint64_t hash = 0;
  for (const InputFile& file : InputsNamedIn(message)) {
    const bool replaced = std::ranges::any_of(
        varied, [&file](const std::string& path) { return IsAtOrBelow(file.field, path); });
    if (!replaced) hash = MixWords(hash, ContentHash(file));
    ApplyOverride("!" + file.field, message);
  }
  return MixWords(hash, HashText(PrintText(message)));
}

std::uint64_t ExperimentTemplate::HashOfFilesIn(const std::string& path, const std::string& value,
                                                const fs::path& folder) const {
  proto::Experiment message = *message_;
  ApplyOverride(fmt::format("{}={}", path, value), message);
  ResolveFiles(folder, message);
  std::uint64_t hash = 0;
  for (const InputFile& file : InputsNamedIn(message)) {
    if (IsAtOrBelow(file.field, path)) hash = MixWords(hash, ContentHash(file));
  }
  return hash;
}

ExperimentConfig ReadExperiment(const fs::path& path, std::span<const std::string> overrides) {
  ExperimentTemplate experiment(path);
  experiment.Change(overrides, fs::current_path());
  return experiment.With({}, {});
}

ExperimentConfig ParseExperiment(std::string_view text, const std::string& source,
                                 const fs::path& folder) {
  proto::Experiment message;
  ParseText(text, {source}, message);
  RequireNoBase(message, source);
  ResolveFiles(folder, message);
  return Convert(message, source, false, nullptr);
}

bool TakesIntegers(std::string_view path) {
  return FieldTakesIntegers(path, *proto::Experiment::descriptor());
}

std::vector<std::string> SettingsWithoutEffect(const ExperimentConfig& config) {
  if (config.asked == nullptr) return {};
  // Resolves `asked` instead of using `config`, in which a run fills in measurements.
  proto::Experiment asked = *config.asked;
  asked.set_name(config.name);
  const proto::Experiment resolved =
      MessageOf(Convert(asked, "experiment", true, config.own_policy));
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
  if (IsPath(system.hardware()) && sim::TraitsOf(config.cost).is_measured) {
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
