#include "config/fill_defaults.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/cost_file.h"
#include "config/experiment.pb.h"
#include "config/hand_bindings.h"
#include "config/hardware_file.h"
#include "config/models/model_names.h"
#include "config/models/named_model.h"
#include "config/models/served_positions.h"
#include "config/names.h"
#include "config/overlay.h"
#include "config/replica_groups.h"
#include "config/servers/servers.h"
#include "sim/cost/dataflow_config.h"
#include "sim/cost/dataflow_cost.h"
#include "sim/devices/memory_defaults.h"
#include "sim/world/acceptance_length.h"

namespace twin {
namespace {

namespace fs = std::filesystem;

// An experiment without replica groups whose defaults are being filled in.
struct Filling {
  proto::Experiment& message;  // the fields that are set, by the user or by a fill
  ExperimentConfig& config;
  bool is_new;  // not the experiment of a recorded run
};

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
  if (!name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos) return;
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

// The device of the pool for feed-forward networks is filled in.
void ValidateFfn(const ExperimentConfig& config) {
  if (!config.system.ffn) return;
  Validate(config.system.ffn->hardware_spec);
  if (!IsReal(config.world)) return;
  throw InputError(InputError::Kind::kUsage, "system.ffn",
                   "is of simulated worlds; allowed in a real world: none");
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

// Replaces 32-bit formats by 16-bit ones: the servers of system.server load 32-bit models so,
// unless told otherwise (vLLM and SGLang: --dtype auto).
void CastTo16Bits(ModelSpec& shape) {
  if (shape.weight_dtype == DType::kFp32) shape.weight_dtype = DType::kBf16;
  if (shape.kv_dtype == DType::kFp32) shape.kv_dtype = DType::kBf16;
}

// Reads the model that the system names. If the system starts with fewer positions than the model
// has, sets max_model_len to the number that it starts with.
void FillModel(Filling& filling) {
  proto::Experiment& message = filling.message;
  const proto::System& system = message.system();
  if (system.model().empty()) return;
  ModelConfig model = ReadNamedModel(system.model(), system.model_shape().has_weight_dtype());
  const ServedPositions positions = FindServedPositions(model, PositionRuleOf(message));
  model.shape.max_position = positions.most;
  if (system.has_server()) CastTo16Bits(model.shape);
  const bool given = message.policy().vllm_v1().max_model_len() > 0 || message.policy().has_own() ||
                     system.model_shape().has_max_position();
  if (positions.at_start < positions.most && !given) {
    message.mutable_policy()->mutable_vllm_v1()->set_max_model_len(positions.at_start);
  }
  filling.config.system.model_spec = std::move(model.shape);
  filling.config.system.model_note = std::move(model.format_note);
}

void FillDevice(Filling& filling) {
  filling.config.system.hardware_spec = NamedHardware(filling.message.system().hardware());
}

// Enters the whole device of the pool for feed-forward networks: the one that the pool names, or
// that of the system, under the numbers that the pool sets.
void FillFfnPool(Filling& filling) {
  const proto::System& system = filling.message.system();
  HardwareSpec named = filling.config.system.hardware_spec;
  proto::Ffn& ffn = *filling.message.mutable_system()->mutable_ffn();
  if (ffn.hardware().empty()) {
    FromMessage fields(system.hardware_spec());
    Bind(fields, named);
  } else {
    named = HardwareFromNameOrFile(ffn.hardware());
  }
  proto::Hardware device = MessageOf(named);
  Overlay(ffn.hardware_spec(), device, "none");
  *ffn.mutable_hardware_spec() = device;
}

// The system as the message has it so far, over the model and the device that it names.
SystemConfig SystemSoFar(const Filling& filling) {
  SystemConfig system = filling.config.system;
  FromMessage fields(filling.message.system());
  Bind(fields, system);
  return system;
}

// Makes the number of stages that of the list, if there is one.
void CountStages(const proto::System& message, Parallelism& parallelism) {
  if (parallelism.stages.empty()) return;
  if (message.has_tensor_parallel() && message.tensor_parallel() != 1) {
    throw InputError(InputError::Kind::kUsage, "system.tensor_parallel",
                     "is set beside stages, which have devices of their own");
  }
  std::int32_t stages = 0;
  for (const StageGroup& group : parallelism.stages) stages += group.count;
  if (!message.has_pipeline_parallel()) parallelism.pipeline = stages;
}

void FillFromServer(Filling& filling) {
  const SystemConfig system = SystemSoFar(filling);
  FillServerDefaults(system.model_spec, system.hardware_spec, system.parallelism, filling.message);
}

// The slots of the policy ship, one for each stage, and the tokens that a stage of the machine
// multiplies while it moves weights.
void FillShip(Filling& filling) {
  SystemConfig system = SystemSoFar(filling);
  CountStages(filling.message.system(), system.parallelism);
  proto::ShipPolicy& ship = *filling.message.mutable_policy()->mutable_ship();
  if (!ship.has_pipeline_parallel_size()) {
    ship.set_pipeline_parallel_size(system.parallelism.pipeline);
  }
  if (!ship.has_fill_tokens() && system.hardware_spec.dataflow) {
    ship.set_fill_tokens(sim::FreeTokens(system.hardware_spec));
  }
}

// The parameter max_model_len of a scheduler of a release (policy.own.engine), if it is open: the
// model's, as the release's server sets it.
void FillEngineContext(Filling& filling) {
  constexpr const char* kName = "max_model_len";
  const auto is_it = [](const proto::OwnPolicy::Parameter& p) { return p.name() == kName; };
  const std::int32_t longest = SystemSoFar(filling).model_spec.max_position;
  proto::OwnPolicy& own = *filling.message.mutable_policy()->mutable_own();
  if (longest <= 0 || std::ranges::any_of(own.parameters(), is_it)) return;
  proto::OwnPolicy::Parameter& added = *own.add_parameters();
  added.set_name(kName);
  added.set_value(std::to_string(longest));
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

// Reads policy and model, sets the limits that the policy leaves to the model, and validates both.
void FillPolicy(Filling& filling) {
  const proto::Experiment& message = filling.message;
  ExperimentConfig& config = filling.config;
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

// Writes the rate of the acceptance length, or of the length that was measured for the model, into
// a message that names no rates.
void FillAcceptanceRates(Filling& filling) {
  proto::Speculation& message = *filling.message.mutable_speculation();
  const SpeculationRules& rules = filling.config.speculation->rules;
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
    length =
        sim::MeasuredAcceptanceLength(filling.config.system.model_spec.name, rules.method, drafts);
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

void FillOwnPolicy(Filling& filling) {
  LoadOwnPolicy(filling.config);
  ValidateContext(filling.config.policy, filling.config.system.model_spec.max_position);
}

void FillMemory(Filling& filling) {
  ExperimentConfig& config = filling.config;
  config.system.memory = sim::MemoryDefaultsFor(TraitsOf(config), config.system.model_spec);
}

// Makes memory rule and cost model those of a dataflow machine.
void FillMachine(Filling& filling) {
  ExperimentConfig& config = filling.config;
  config.system.memory.rule = sim::MemoryRule::kShip;
  config.system.memory.kv_groups = false;
  config.system.memory.window_pool_ratio.reset();
  config.cost = sim::DataflowCostConfig{};
}

void FillFittedCost(Filling& filling) {
  filling.config.cost = ReadFittedCostFile(filling.message.cost().fitted().path());
}

// A default that follows from other fields.
struct Fill {
  bool (*applies)(const Filling& filling);
  void (*fill)(Filling& filling);
};

bool Always(const Filling& /*filling*/) { return true; }

// Each fill reads what the fills before it entered. Up to the policy they complete the message, so
// that a field of the user replaces them; the policy's defaults are then read as all others, and
// what follows from its traits is entered into the config, over which the message is read last.
constexpr Fill kFills[] = {
    {Always, FillModel},
    {Always, FillDevice},
    {[](const Filling& filling) { return filling.message.system().has_ffn(); }, FillFfnPool},
    // The server names the policy.
    {[](const Filling& filling) { return filling.message.system().has_server(); }, FillFromServer},
    {[](const Filling& filling) { return filling.message.policy().has_ship(); }, FillShip},
    {[](const Filling& filling) {
       return filling.is_new && filling.message.policy().own().has_engine();
     },
     FillEngineContext},
    {Always, FillPolicy},
    {[](const Filling& filling) {
       return filling.config.speculation && filling.config.speculation->rules.on();
     },
     FillAcceptanceRates},
    // Recorded runs keep longer requests than the model has positions, and need no code to load.
    {[](const Filling& filling) { return filling.is_new; }, FillOwnPolicy},
    {Always, FillMemory},
    // The machine replaces the memory of the policy.
    {[](const Filling& filling) {
       return filling.config.system.hardware_spec.dataflow.has_value();
     },
     FillMachine},
    {[](const Filling& filling) { return filling.message.cost().fitted().has_path(); },
     FillFittedCost}};

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
    Filling filling{message, config, is_new};
    for (const Fill& fill : kFills) {
      if (fill.applies(filling)) fill.fill(filling);
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

}  // namespace

proto::Hardware MessageOf(HardwareSpec device) {
  proto::Hardware message;
  ToMessage fields(message);
  Bind(fields, device);
  return message;
}

HardwareSpec NamedHardware(const std::string& hardware) {
  if (hardware.empty()) return {};
  return HardwareFromNameOrFile(hardware);
}

ExperimentConfig ConfigOf(const proto::Experiment& asked, const std::string& source, bool is_new,
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

}  // namespace twin
