// The terms of the step model: the costs of a step beyond its operations.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/devices/recorded_model.h"

namespace twin::sim {

// A global term and how well it is known: the standard deviation of its logarithm.
struct StepTerm {
  double value = 0;
  double log_sd = 0;

  bool operator==(const StepTerm&) const = default;
};

// All terms of one kind of device and one serving engine. The step model has the formulas
// (step_model.h). Times are in seconds.
struct StepTerms {
  // Compute-bound work takes 1 + heat_factor times as long on a device that has computed for long;
  // memory-bound work 1 + decode_heat_factor. The device forgets with the time constant heat_tau_s.
  StepTerm heat_factor{0.22, 0.2};
  StepTerm heat_tau_s{0.040, 0.25};
  StepTerm decode_heat_factor{0.036, 0.5};
  // Ratio of a step's compute-bound work to the times of isolated, rested kernels; ratio of its
  // collectives to theirs.
  StepTerm compute_in_place{0.978, 0.02};
  StepTerm collective_in_place{1.0, 0.3};
  // Host and launch time that shows between two steps: graph replays, and all other steps.
  StepTerm graph_gap_s{0.9e-3, 0.3};
  StepTerm eager_gap_s{0.5e-3, 0.5};
  // The part of graph_gap_s that does not show after a step that took more than twice as long.
  StepTerm hidden_gap_s{0.5e-3, 0.3};
  // The host launches the kernels of an eager layer in this time; the device cannot be faster. Of
  // kTrtllm and kSglang: of a layer of kDenseLayerLaunches (layer_launches.h).
  StepTerm layer_launch_s{60e-6, 0.3};
  // Host time before the device begins, which a step in flight hides.
  StepTerm host_s{1.0e-3, 0.5};
  StepTerm host_per_item_s{5e-6, 0.5};

  bool operator==(const StepTerms&) const = default;
};

// Terms that were fitted to recorded steps of a device under vLLM V1 with asynchronous scheduling;
// terms that are not set have documented defaults.
struct StepProfile {
  std::optional<StepTerm> heat_factor;
  std::optional<StepTerm> heat_tau_s;
  std::optional<StepTerm> decode_heat_factor;
  std::optional<StepTerm> compute_in_place;
  std::optional<StepTerm> collective_in_place;
  std::optional<StepTerm> graph_gap_s;
  std::optional<StepTerm> eager_gap_s;
  std::optional<StepTerm> hidden_gap_s;
  std::optional<StepTerm> layer_launch_s;
  std::optional<StepTerm> host_s;
  std::optional<StepTerm> host_per_item_s;
  std::vector<RecordedModel> models;

  bool operator==(const StepProfile&) const = default;
};

// The name of a term, and where it stands.
struct StepTermField {
  std::string_view name;
  StepTerm StepTerms::*value;
  std::optional<StepTerm> StepProfile::*fitted;
  bool of_host = false;  // belongs to the engine rather than to the device
};
inline constexpr std::array<StepTermField, 11> kStepTermFields = {{
    {"heat_factor", &StepTerms::heat_factor, &StepProfile::heat_factor},
    {"heat_tau_s", &StepTerms::heat_tau_s, &StepProfile::heat_tau_s},
    {"decode_heat_factor", &StepTerms::decode_heat_factor, &StepProfile::decode_heat_factor},
    {"compute_in_place", &StepTerms::compute_in_place, &StepProfile::compute_in_place},
    {"collective_in_place", &StepTerms::collective_in_place, &StepProfile::collective_in_place},
    {"graph_gap_s", &StepTerms::graph_gap_s, &StepProfile::graph_gap_s, true},
    {"eager_gap_s", &StepTerms::eager_gap_s, &StepProfile::eager_gap_s, true},
    {"hidden_gap_s", &StepTerms::hidden_gap_s, &StepProfile::hidden_gap_s, true},
    {"layer_launch_s", &StepTerms::layer_launch_s, &StepProfile::layer_launch_s, true},
    {"host_s", &StepTerms::host_s, &StepProfile::host_s, true},
    {"host_per_item_s", &StepTerms::host_per_item_s, &StepProfile::host_per_item_s, true},
}};

// How an engine prepares steps on the host.
enum class StepEngine : std::uint8_t {
  kFromPolicy,  // as the policy's own system does; without a policy, like kV1Async
  kV1Async,     // the next step is prepared while the device works (vLLM V1 since 0.14)
  kV1Sync,      // graphs and a lean host, one step at a time
  kV0,          // a slow host; prompts apart from decodes
  kTgis,        // no chunks, static shapes, a slow host
  kTwinserve,   // the executor of this program on a GPU (exec/cuda)
  kTrtllm,      // like kV1Async, but graphs hold decodes alone, and prompts launch by kernels
  kSglang,      // as kTrtllm
};

// True if the host launches the layers of prompts kernel by kernel, and graphs hold decodes alone.
constexpr bool LaunchesKernels(StepEngine engine) {
  return engine == StepEngine::kTrtllm || engine == StepEngine::kSglang;
}

// True if the engine is like the one whose steps were recorded: V1 with asynchronous scheduling.
constexpr bool IsRecordedEngine(StepEngine engine) {
  return engine == StepEngine::kV1Async || engine == StepEngine::kFromPolicy;
}

// The documented terms of a device (name of its hardware preset) and an engine. A fit starts from
// them.
StepTerms DocumentedStepTerms(std::string_view hardware, StepEngine engine);

// The documented terms with the terms of the profile laid over them. A GPU whose profile has none
// gets the terms that were fitted to another kind of GPU, with wide spreads. Engines other than
// kV1Async keep their own terms of the host; kTrtllm and kSglang keep only their layer_launch_s.
StepTerms StepTermsFor(std::string_view hardware, StepEngine engine, const StepProfile& fitted);

// Defaults for the largest captured size.
constexpr std::uint32_t kCapturedSizeMax = 512;
constexpr std::uint32_t kV0CapturedSizeMax = 256;

// Batch sizes for which engines capture graphs: 1, 2, 4, then multiples of 8 up to 256 and of 16
// up to `limit`, ascending.
std::vector<std::uint32_t> CapturedSizes(std::uint32_t limit);

}  // namespace twin::sim
