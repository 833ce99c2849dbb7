// The settings of the profile cost model; the rest follows from model, hardware and policy.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "sim/cost/cost_traits.h"
#include "sim/devices/operations/device_profile.h"

namespace twin::sim {

struct CostContext;

struct ProfileCostConfig {
  static constexpr CostTraits kCostTraits = {
      .name = "profile", .prices_drafts = true, .is_measured = true};

  std::string profile;  // a kind of device, or a folder; empty: that of the hardware
  // The profile as run::Resolve read it; null: no profile, all follows from the data sheet.
  std::shared_ptr<const DeviceProfile> device;
  StepEngine engine = StepEngine::kFromPolicy;
  bool captures_graphs = true;
  // Largest captured graph; 0: twice the sequences of a step, but at most 512.
  std::uint32_t captured_size_max = 0;
  // 0: the median prediction. Otherwise each class of operations and each term is wrong by an
  // error drawn from this seed, so that runs with different seeds spread as the model is unsure.
  std::uint64_t draw_seed = 0;
  // Experts are divided over the ranks whole, instead of each by its width.
  bool expert_parallel = false;
  KernelLibrary library = KernelLibrary::kVllm;
  ExpertsKernel experts_kernel = ExpertsKernel::kAny;
  // For ablations: attention knows the mean context of a batch, not its longest.
  bool mean_context = false;
  // For ablations: false leaves out what recorded steps of the model add to the terms of all
  // models.
  bool recorded_ratios = true;
  // Terms that replace the profile's, in seconds if they are times.
  std::optional<double> heat_factor;
  std::optional<double> heat_tau_s;
  std::optional<double> decode_heat_factor;
  std::optional<double> compute_in_place;
  std::optional<double> collective_in_place;
  std::optional<double> graph_gap_s;
  std::optional<double> eager_gap_s;
  std::optional<double> hidden_gap_s;
  std::optional<double> layer_launch_s;
  std::optional<double> host_s;
  std::optional<double> host_per_item_s;

  // Fills in profile, device, engine and captured_size_max. Throws what read_profile throws.
  void Resolve(const CostContext& context);
  [[nodiscard]] const BoundaryProfile* boundary() const {
    return device ? &device->boundary : nullptr;
  }
  // As EstimatedPartsWarning() (sim/cost/cost_config.h).
  [[nodiscard]] std::string EstimatedPartsWarning() const;

  bool operator==(const ProfileCostConfig&) const = default;
};

}  // namespace twin::sim
