#include "sim/devices/profile_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/hardware_spec.h"
#include "sched/policy/policy.h"
#include "sim/cost/cost_config.h"

namespace twin::sim {
namespace {

StepEngine FindStepEngine(const PolicyTraits& traits) {
  if (traits.step_engine == "v0") return StepEngine::kV0;
  if (traits.step_engine == "tgis") return StepEngine::kTgis;
  return traits.overlaps_own_steps ? StepEngine::kV1Async : StepEngine::kV1Sync;
}

}  // namespace

void ProfileCostConfig::Resolve(const CostContext& context) {
  if (profile.empty()) profile = context.hardware.name;
  // A resolved config that is resolved again, as in draws, brings it along.
  if (device == nullptr) device = context.read_profile(profile);
  if (engine == StepEngine::kFromPolicy) engine = FindStepEngine(context.policy);
  if (captured_size_max > 0) return;
  const std::int32_t sequences = context.policy.sequences_per_step_max;
  const auto twice = static_cast<std::uint32_t>(2 * std::min(sequences, 65536));
  captured_size_max = sequences == 0 ? kCapturedSizeMax : std::min(twice, kCapturedSizeMax);
}

// Products and attention carry most of a step and of its uncertainty.
std::string ProfileCostConfig::EstimatedPartsWarning() const {
  if (device == nullptr) return "";
  std::vector<std::string_view> missing;
  if (device->gemm.fits.empty()) missing.emplace_back("matrix products");
  if (device->attention.tables.empty()) missing.emplace_back("attention");
  if (missing.empty()) return "";
  return fmt::format(
      "cost.profile: {} has no measurements of {}: their times come from the data sheet, "
      "with wide intervals (twinserve compare --draws)",
      profile, fmt::join(missing, " and "));
}

}  // namespace twin::sim
