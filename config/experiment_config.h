// An experiment: the configs of all layers, read from one text file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/overlay.h"
#include "config/policy_file.h"
#include "config/world_config.h"
#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "core/service_goal.h"
#include "sched/disaggregation_config.h"
#include "sched/policy/own_policy.h"
#include "sched/policy/policy_config.h"
#include "sched/route/router_config.h"
#include "sim/cost/boundary_config.h"
#include "sim/cost/cost_config.h"
#include "sim/cost/ffn_pool_config.h"
#include "sim/cost/roofline_config.h"
#include "sim/devices/kv_capacity.h"
#include "sim/world/acceptance.h"
#include "sim/world/kv_links.h"
#include "traces/workload.h"

namespace twin {

namespace proto {
class Experiment;
}  // namespace proto

// Replicas that prefill and replicas that decode, and the network between them.
struct DisaggregatedSystem {
  DisaggregationConfig pools;
  sim::LinkConfig link;

  bool operator==(const DisaggregatedSystem&) const = default;
};

// Settings that the replicas of a group have of their own. Everything else is the experiment's.
struct ReplicaGroup {
  enum class Role : std::uint8_t { kBoth, kPrefill, kDecode };

  std::int32_t count = 1;
  Role role = Role::kBoth;
  std::string hardware;  // as in SystemConfig
  HardwareSpec hardware_spec;
  Parallelism parallelism;
  sim::MemoryConfig memory;
  PolicyConfig policy;
  sim::CostConfig cost = sim::RooflineCostConfig{};
  std::optional<sim::FfnPoolConfig> ffn;
};

struct SystemConfig {
  std::string model;  // preset, or path of what was read; empty: given in full
  ModelSpec model_spec;
  std::string model_note;  // one line on what model_spec cannot say of the model; usually empty
  std::string hardware;    // preset, or path of the data sheet; empty: given in full
  HardwareSpec hardware_spec;
  Parallelism parallelism;
  sim::MemoryConfig memory;                     // limits of a step filled in from the policy
  std::optional<sim::BoundaryConfig> boundary;  // in a simulated world
  std::optional<std::string> server;            // its defaults are filled in
  std::optional<std::string> server_asked;      // the unlisted version that it stands in for
  std::int32_t replicas = 1;                    // all with the settings above
  RouterConfig router;                          // with disaggregation: of the prefill replicas
  std::optional<DisaggregatedSystem> disaggregation;
  // Empty if all replicas are equal. Otherwise the settings above are the first group's.
  std::vector<ReplicaGroup> groups;
  std::optional<sim::FfnPoolConfig> ffn;  // of each replica; its cost is filled in by run::Resolve

  // The devices of one replica.
  [[nodiscard]] std::int32_t devices() const {
    return ffn ? sim::DevicesOf(parallelism, *ffn) : parallelism.devices();
  }
};

struct RunMetricsConfig {
  // Shares of the requests that the metrics leave out at the start (warm-up) and at the end.
  double head_share = 0;
  double tail_share = 0;
  Duration stall_threshold{100'000'000};
  bool by_tenant = false;
  Duration series_interval{1'000'000'000};
  std::int32_t series_points_max = 2048;

  bool operator==(const RunMetricsConfig&) const = default;
};

struct OutputsConfig {
  bool requests_csv = true;
  bool steps_csv = true;
  bool series_csv = true;
  bool record = true;
  bool compress_record = false;
  bool perfetto = true;

  bool operator==(const OutputsConfig&) const = default;
};

// Speculative decoding.
struct SpeculationConfig {
  SpeculationRules rules;
  // The next three members are for simulated worlds.
  sim::AcceptanceConfig acceptance;
  Duration propose{0};      // time to propose the drafts of a step
  std::string draft_model;  // empty: proposing takes `propose` and no memory
  // Shape of the draft model, once it has been read (run/draft_model_spec.h). Not in
  // WriteResolved().
  std::optional<ModelSpec> draft_shape = std::nullopt;
  // Lengths of n-grams in a real world: exec::NgramConfig.
  std::int32_t prompt_lookup_min = 5;
  std::int32_t prompt_lookup_max = 5;

  bool operator==(const SpeculationConfig&) const = default;
};

struct ExperimentConfig {
  std::string name;  // default: the name of the file without its extension
  std::uint64_t seed = 0;
  WorldConfig world;
  WorkloadConfig workload;
  PolicyConfig policy;
  // policy.own: `policy` then says nothing.
  std::optional<PolicyFile> policy_file;
  // Decides in place of `policy`, if not null: the policy of policy_file, or one of the caller,
  // whose name WriteResolved() writes as a comment.
  std::shared_ptr<const OwnPolicy> own_policy;
  SystemConfig system;
  sim::CostConfig cost = sim::RooflineCostConfig{};
  bool cost_given = false;  // false: the file and its changes name no cost model
  ServiceGoal slo;
  RunMetricsConfig metrics;
  OutputsConfig outputs;
  std::optional<SpeculationConfig> speculation;  // also within `policy`
  // The experiment file, its bases, and the files that its fields name. Not in WriteResolved().
  std::vector<InputFile> input_files;
  // Fields that the file and its changes set, without defaults. Null in a config that was not read
  // by an ExperimentTemplate. Not in WriteResolved().
  std::shared_ptr<const proto::Experiment> asked = nullptr;
};

// An experiment file, read once, from which configs with different changes are made. Copies share
// the content; several threads may call the const functions.
class ExperimentTemplate {
 public:
  // Reads the file and its bases. Throws as ReadExperiment.
  explicit ExperimentTemplate(const std::filesystem::path& path);
  // Reads a text instead of a file. Errors name `source`; relative paths start at the current
  // folder.
  static ExperimentTemplate FromText(std::string_view text, const std::string& source);

  // Lets a policy of the caller decide in place of the one of the registry that the file names.
  void ReplacePolicy(std::shared_ptr<const OwnPolicy> policy) { own_policy_ = std::move(policy); }

  // Applies changes (override.h), whose relative paths start at `folder`. Throws as ReadExperiment.
  void Change(std::span<const std::string> changes, const std::filesystem::path& folder);

  // The config after further changes.
  [[nodiscard]] ExperimentConfig With(std::span<const std::string> changes,
                                      const std::filesystem::path& folder) const;

  // Whether a change names a field and gives it a value of its type; its range is not checked.
  // Throws InputError (usage) if not.
  void CheckChange(std::string_view change) const;

  // The seed that the file or its changes set; 0 if they set none.
  [[nodiscard]] std::uint64_t seed() const;

  // A 64-bit hash of the merged fields and the whole content of the files that they name. Does not
  // depend on where the files lie. Leaves out the files of `varied`, fields that changes will
  // replace. Throws InputError (usage) if a file cannot be read.
  [[nodiscard]] std::uint64_t Hash(std::span<const std::string> varied = {}) const;

  // A hash of the files that the field `path` names once it has the value; 0 if it names none.
  // Relative paths start at `folder`.
  [[nodiscard]] std::uint64_t HashOfFilesIn(const std::string& path, const std::string& value,
                                            const std::filesystem::path& folder) const;

 private:
  ExperimentTemplate() = default;

  std::string source_;
  std::vector<InputFile> files_;
  std::shared_ptr<const proto::Experiment> message_;
  std::shared_ptr<const OwnPolicy> own_policy_;
};

// Whether the field of an experiment that `path` names, as in --set, takes whole numbers; false for
// a path that names none.
bool TakesIntegers(std::string_view path);

// Reads the file, lays it over its `base` (and that over its own), applies the changes of the
// command line (override.h) in order, fills in what the policy, the model and the hardware say,
// and validates. Relative paths in a file start at the folder of the file; relative paths of the
// command line start at the current folder.
// Throws InputError: one line with the file and line or the field's path, what is wrong, what is
// allowed.
ExperimentConfig ReadExperiment(const std::filesystem::path& path,
                                std::span<const std::string> overrides);

// Reads a text such as WriteResolved writes; errors name `source`.
// Accepts a policy that allows longer requests than the model has positions, which ReadExperiment
// refuses: records of older versions contain such configs and must stay replayable. Does not load
// the file of policy.own: see LoadOwnPolicy().
ExperimentConfig ParseExperiment(std::string_view text, const std::string& source,
                                 const std::filesystem::path& folder);

// Loads the policy of policy_file, unless it was loaded. Throws as LoadPolicy().
void LoadOwnPolicy(ExperimentConfig& config);

// The experiment in text format with all defaults; reading it gives an equal config.
// A real world without a cost model is written without one.
std::string WriteResolved(const ExperimentConfig& config);
// The name of the policy of the caller that decided, from a text of WriteResolved; empty if
// `policy` decided.
std::string OwnPolicyOf(std::string_view resolved);

// The fields that `asked` sets but that have no effect with the other fields, each as one line with
// its path and what it needs. Leaves out fields that are set to the value that they would have
// anyway. Resolves the experiment once more, and again for each line: about a millisecond each.
std::vector<std::string> SettingsWithoutEffect(const ExperimentConfig& config);

// Whether the file or its changes set the field, as --set names it; nullopt if that is not known.
std::optional<bool> IsSetByUser(const ExperimentConfig& config, std::string_view path);

// A number of the device that the experiment sets, in hardware_spec or in a data sheet of its own,
// and the device with half of that number, or with a number above 0 where it is 0.
struct ChangedHardware {
  std::string field;  // "system.hardware_spec.sm_count", or "PATH: sm_count"
  HardwareSpec spec;
};

// One for each such number. Throws InputError if the data sheet cannot be read any more.
std::vector<ChangedHardware> HardwareWithOneNumberChanged(const ExperimentConfig& config);

// The traits of the policy that decides: own_policy if there is one, else `policy`.
PolicyTraits TraitsOf(const ExperimentConfig& config);

}  // namespace twin
