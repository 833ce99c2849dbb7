#include "run/config_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/profile_folder.h"
#include "config/servers/servers.h"
#include "core/input_error.h"
#include "core/random.h"
#include "run/server_differences.h"
#include "sched/policy/vllm_v1.h"
#include "traces/integer_sampler.h"

namespace twin::run {
namespace {

struct NamedShape {
  std::string field;
  const RequestShape* shape;
};

std::vector<NamedShape> ShapesOf(const WorkloadConfig& workload) {
  if (workload.trace || workload.servegen) return {};
  if (workload.classes.empty()) return {{"workload.shape", &workload.shape}};
  std::vector<NamedShape> shapes;
  for (std::size_t i = 0; i < workload.classes.size(); ++i) {
    shapes.push_back({fmt::format("workload.classes[{}].shape", i), &workload.classes[i].shape});
  }
  return shapes;
}

// Estimates, from draws, the share of first turns that traces/conversation.cc cuts to
// context_tokens_max. Tenants with lengths of their own are left out.
double CutShare(const RequestShape& shape) {
  constexpr int kDraws = 2000;
  Random random(0, "cut prompts");
  const IntegerSampler prompt(shape.prompt);
  const IntegerSampler output(shape.output);
  const std::int64_t before = shape.shared_prefix.prompts > 0 ? shape.shared_prefix.tokens : 0;
  int cut = 0;
  for (int i = 0; i < kDraws; ++i) {
    const std::int64_t tokens =
        before + std::int64_t{prompt.Draw(random)} + std::int64_t{output.Draw(random)};
    if (tokens > shape.sessions.context_tokens_max) ++cut;
  }
  return static_cast<double>(cut) / kDraws;
}

void WarnOfShapes(const Deployment& deployment, std::vector<std::string>& warnings) {
  const std::int32_t limit = deployment.context_tokens_max;
  for (const auto& [field, shape] : ShapesOf(deployment.config.workload)) {
    const SharedPrefixConfig& prefix = shape->shared_prefix;
    if (prefix.prompts > 0 && prefix.tokens >= limit) {
      warnings.push_back(fmt::format(
          "{}.shared_prefix.tokens is {}, but a request may have {} tokens: all are rejected",
          field, prefix.tokens, limit));
    }
    const bool drawn = shape->prompt.kind != IntegerDistribution::Kind::kNone &&
                       shape->output.kind != IntegerDistribution::Kind::kNone;
    if (shape->sessions.context_tokens_max == 0 || !drawn) continue;
    if (const double share = CutShare(*shape); share > 0) {
      warnings.push_back(fmt::format(
          "{}.sessions.context_tokens_max is {}: about {:.2g} % of the first prompts are longer "
          "with their outputs and are cut",
          field, shape->sessions.context_tokens_max, 100 * share));
    }
  }
}

void WarnOfSystem(const SystemConfig& system, const sim::KvCapacity& capacity,
                  std::vector<std::string>& warnings) {
  const std::int64_t needed = capacity.weight_bytes +
                              std::int64_t{capacity.blocks} * capacity.block_bytes +
                              std::int64_t{capacity.window_blocks} * capacity.window_block_bytes;
  if (capacity.overridden && needed > capacity.total_bytes) {
    warnings.push_back(fmt::format(
        "system.memory.{} gives {} blocks of {} bytes: with {:.3g} GB of weights they need {:.3g} "
        "GB per device, which has {:.3g} GB",
        system.memory.blocks_override ? "blocks_override" : "kv_bytes_override", capacity.blocks,
        capacity.block_bytes, 1e-9 * static_cast<double>(capacity.weight_bytes),
        1e-9 * static_cast<double>(needed), 1e-9 * static_cast<double>(capacity.total_bytes)));
  }
  if (capacity.sequence_bytes > 0) {
    warnings.push_back(fmt::format(
        "layers of {} differ: {:.3g} GB beside the KV blocks hold the windows and states of {} "
        "sequences, and are not shared with blocks as servers share them",
        system.model_spec.name, 1e-9 * static_cast<double>(capacity.sequences_bytes),
        capacity.sequences_bytes / capacity.sequence_bytes));
  }
  const HardwareSpec& hardware = system.hardware_spec;
  const DType weights = system.model_spec.weight_dtype;
  const bool lacks_format = (weights == DType::kFp8 && hardware.peak_fp8_flops == 0) ||
                            (weights == DType::kInt8 && hardware.peak_int8_flops == 0);
  if (lacks_format) {
    warnings.push_back(fmt::format(
        "system.model_shape.weight_dtype is {0}, but {1} has no {0} arithmetic: products run in "
        "16 bits",
        Name(weights), hardware.name));
  }
}

// A policy with fewer steps in flight than stages is allowed, but stages then wait for each other.
void WarnOfBubbles(const Deployment& deployment, std::vector<std::string>& warnings) {
  const std::int32_t stages = deployment.config.system.parallelism.pipeline;
  const PolicyTraits& traits = deployment.traits;
  if (traits.steps_in_flight_max >= stages) return;
  warnings.push_back(
      fmt::format("system.pipeline_parallel is {}, but policy.{} keeps at most {} in flight: "
                  "stages will idle",
                  stages, traits.name, traits.steps_in_flight_max));
}

// Warns of defaults of policy and cost that differ from what a server on the device does. Says
// nothing about an experiment whose text is not known, such as a recorded one.
void WarnOfDefaults(const ExperimentConfig& config, std::vector<std::string>& warnings) {
  const auto open = [&](std::string_view path) { return IsSetByUser(config, path) == false; };
  const std::string& device = config.system.hardware_spec.name;
  if (config.cost == ExperimentConfig{}.cost && config.asked != nullptr &&
      std::ranges::find(ProfilePresetNames(), device) != ProfilePresetNames().end()) {
    warnings.push_back(fmt::format(
        "cost is a roofline of the data sheet, without host times, although {} was measured: "
        "cost {{ profile {{}} }} takes the measurements",
        device));
  }
  const auto* const v1 = config.policy.If<VllmV1Config>();
  if (v1 == nullptr || v1->async_scheduling || config.system.parallelism.pipeline > 1) return;
  if (sim::TraitsOf(config.cost).is_measured && config.own_policy == nullptr &&
      open("policy.vllm_v1.async_scheduling") && open("system.server")) {
    warnings.push_back(
        "policy.vllm_v1.async_scheduling is false by default, but vLLM plans steps ahead: steps "
        "wait for the host; system.server takes what a release does");
  }
}

// A policy that sorts by an output limit equal to the output length knows the length.
void WarnOfLimits(const Deployment& deployment, std::vector<std::string>& warnings) {
  const ExperimentConfig& config = deployment.config;
  const bool from_trace = config.workload.trace.has_value();
  if (config.workload.max_output.kind != MaxOutputRule::Kind::kEqual) return;
  if (config.own_policy != nullptr) {
    warnings.push_back(fmt::format(
        "workload.max_output is equal: the output limit that {} sees is the true output length{}; "
        "max_output {{ kind: fixed value: ... }} hides it",
        deployment.traits.name, from_trace ? " where the trace says no limit" : ""));
    return;
  }
  const bool predicts = config.workload.prediction.kind != PredictionConfig::Kind::kNone;
  if (deployment.traits.reads_predictions && !predicts && !from_trace) {
    warnings.push_back(fmt::format(
        "policy.{} reads predicted outputs, of which there are none: it takes the output limit, "
        "which is the true output length with workload.max_output equal",
        deployment.traits.name));
  }
}

// KV cache and step times of a device, for steps that hold every kind of work.
struct DeviceTrial {
  sim::KvCapacity capacity;
  std::vector<Duration> times;

  bool operator==(const DeviceTrial&) const = default;
};

void AddTimes(const sim::StepCost& cost, const StepPlan& plan, std::vector<Duration>& times) {
  times.push_back(cost.HostTime(plan));
  std::vector<Duration> stages(static_cast<std::size_t>(cost.stages()));
  cost.DeviceTimes(plan, stages);
  times.insert(times.end(), stages.begin(), stages.end());
}

DeviceTrial TrialOf(const Deployment& deployment, const HardwareSpec& hardware, CostCache& costs) {
  const ExperimentConfig& config = deployment.config;
  const SystemConfig& system = config.system;
  DeviceTrial trial{.capacity = sim::PlanKvCapacity(system.model_spec, hardware, system.parallelism,
                                                    system.memory, nullptr),
                    .times = {}};
  const std::shared_ptr<const sim::StepCost> cost = costs.Cost(
      config.cost, system.model_spec, hardware, system.parallelism, trial.capacity.block_bytes);
  for (const std::int64_t size : {1, 48, 3000}) {
    StepPlan plan;
    plan.totals = {.prefill_tokens = size,
                   .prefill_items = 1,
                   .prefill_context_tokens = size,
                   .prefill_attention_pairs = size * (size + 1) / 2,
                   .prefill_context_max = size,
                   .decode_items = size,
                   .decode_context_tokens = 700 * size,
                   .decode_context_max = 900,
                   .emitting_items = size};
    plan.kv.push_back({.kind = KvOperation::Kind::kSwapOut});
    plan.preempted.push_back({.how = Preemption::How::kSwap});
    AddTimes(*cost, plan, trial.times);
    // The step without its prompts.
    plan.totals.prefill_tokens = plan.totals.prefill_items = plan.totals.prefill_context_max = 0;
    plan.totals.prefill_context_tokens = plan.totals.prefill_attention_pairs = 0;
    AddTimes(*cost, plan, trial.times);
  }
  return trial;
}

// Warns of numbers of the device that the experiment sets although neither steps nor memory depend
// on them: measurements take their place, or the experiment has no work that they affect.
void WarnOfHardware(const Deployment& deployment, CostCache& costs,
                    std::vector<std::string>& warnings) {
  if (!HasCosts(deployment.config.world)) return;
  const std::vector<ChangedHardware> changed = HardwareWithOneNumberChanged(deployment.config);
  if (changed.empty()) return;
  const DeviceTrial asked = TrialOf(deployment, deployment.config.system.hardware_spec, costs);
  std::vector<std::string> unread;
  for (const ChangedHardware& other : changed) {
    try {
      if (TrialOf(deployment, other.spec, costs) == asked) unread.push_back(other.field);
    } catch (const InputError&) {
      // Half the number was refused, so something reads it.
    }
  }
  if (unread.empty()) return;
  warnings.push_back(fmt::format("{} {} no effect: no step and no memory depends on {} here",
                                 fmt::join(unread, ", "), unread.size() == 1 ? "has" : "have",
                                 unread.size() == 1 ? "it" : "them"));
}

// Warnings about one group of replicas.
void WarnOfReplicas(const Deployment& deployment, std::vector<std::string>& warnings) {
  const ExperimentConfig& config = deployment.config;
  const PolicyTraits& traits = deployment.traits;
  if (config.workload.prediction.kind != PredictionConfig::Kind::kNone &&
      !traits.reads_predictions) {
    warnings.push_back(fmt::format(
        "workload.prediction has no effect: policy.{} does not read predictions", traits.name));
  }
  if (!config.system.model_note.empty()) {
    warnings.push_back("system.model: quantization_config: " + config.system.model_note);
  }
  const std::int32_t positions = config.system.model_spec.max_position;
  if (positions > 0 && traits.context_tokens_max > positions) {
    warnings.push_back(fmt::format(
        "policy.{} allows {} tokens per request, but the model has {} positions: longer requests "
        "are rejected",
        traits.name, traits.context_tokens_max, positions));
  }
  // A real world measures its memory and refuses formats that the device lacks.
  if (HasCosts(config.world)) {
    WarnOfSystem(config.system, deployment.capacity, warnings);
    if (std::string warning = sim::EstimatedPartsWarning(config.cost); !warning.empty()) {
      warnings.push_back(std::move(warning));
    }
    WarnOfBubbles(deployment, warnings);
    WarnOfDefaults(config, warnings);
    WarnOfLimits(deployment, warnings);
  }
}

void WarnOfServer(const Deployment& deployment, std::vector<std::string>& warnings) {
  const SystemConfig& system = deployment.config.system;
  if (!system.server) return;
  const std::optional<ListedServer> listed = FindServer(*system.server);
  if (!listed) return;
  const std::string_view policy = deployment.traits.name;
  if (deployment.config.own_policy == nullptr && policy != listed->preset->policy) {
    warnings.push_back(fmt::format(
        "system.server: {} decides by policy.{}, but the experiment has policy.{}: memory and "
        "boundary are the server's, decisions are not",
        *system.server, listed->preset->policy, policy));
  }
  const std::string& asked = system.server_asked ? *system.server_asked : *system.server;
  std::string decisions;
  if (const std::optional<ServerDecisions> rules = DecisionsOfServer(asked)) {
    decisions = rules->compared
                    ? fmt::format("decisions are those of {}, which it shares", rules->release)
                    : fmt::format("decisions are those of another release, {}", rules->release);
    if (!system.server_asked && !rules->compared) {
      warnings.push_back(fmt::format("system.server: {}: {}", asked, decisions));
    }
  }
  if (!system.server_asked) return;
  warnings.push_back(fmt::format("system.server: {} is not listed; {} stands in for it ({}{}{})",
                                 asked, *system.server, listed->preset->source,
                                 decisions.empty() ? "" : "; ", decisions));
}

}  // namespace

std::vector<std::string> WarningsOf(const Deployment& deployment, CostCache* costs) {
  CostCache own;
  std::vector<std::string> warnings;
  for (std::string& line : SettingsWithoutEffect(deployment.config)) {
    warnings.push_back(std::move(line));
  }
  WarnOfServer(deployment, warnings);
  for (std::string& line : ServerDifferences(deployment.config)) {
    warnings.push_back(std::move(line));
  }
  WarnOfShapes(deployment, warnings);
  if (deployment.groups.empty()) {
    WarnOfReplicas(deployment, warnings);
    WarnOfHardware(deployment, costs == nullptr ? own : *costs, warnings);
    return warnings;
  }
  for (std::size_t i = 0; i < deployment.groups.size(); ++i) {
    std::vector<std::string> of_group;
    WarnOfReplicas(deployment.groups[i], of_group);
    for (const std::string& warning : of_group) {
      warnings.push_back(fmt::format("system.replica_groups[{}]: {}", i, warning));
    }
  }
  return warnings;
}

}  // namespace twin::run
