#include "sim/cost/step_profile.h"

#include <algorithm>
#include <array>
#include <optional>

namespace twin::sim {
namespace {

// Slow-down under sustained compute. Measured on the H100 in recorded steps; the others are scaled
// from how much slower their isolated kernels get in calls of several milliseconds.
struct Heat {
  std::string_view hardware;
  StepTerm factor;
};
constexpr std::array kHeat = {
    Heat{"h100-sxm", {0.22, 0.12}}, Heat{"h200-sxm", {0.25, 0.3}},
    Heat{"l40s", {0.35, 0.4}},      Heat{"a100-80gb-sxm", {0.02, 1.0}},
    Heat{"a100-40gb", {0.02, 1.0}}, Heat{"rtx-pro-6000-server", {0.02, 1.0}},
    Heat{"cpu-generic", {0.0, 0.0}}};
constexpr StepTerm kUnknownHeat{0.1, 1.0};

void SetEngine(StepEngine engine, StepTerms& terms) {
  switch (engine) {
    case StepEngine::kFromPolicy:
    case StepEngine::kV1Async:
      break;
    case StepEngine::kV1Sync:
      terms.host_s = {1.5e-3, 0.5};
      terms.host_per_item_s = {10e-6, 0.5};
      terms.hidden_gap_s = {0, 0};
      break;
    case StepEngine::kV0:
      terms.host_s = {3.0e-3, 0.5};
      terms.host_per_item_s = {30e-6, 0.5};
      terms.hidden_gap_s = {0, 0};
      break;
    case StepEngine::kTgis:
      terms.host_s = {5.0e-3, 0.7};
      terms.host_per_item_s = {50e-6, 0.7};
      terms.hidden_gap_s = {0, 0};
      terms.layer_launch_s = {150e-6, 0.5};
      break;
  }
}

}  // namespace

StepTerms StepTermsFor(std::string_view hardware, StepEngine engine, const StepProfile& fitted) {
  StepTerms terms;
  const auto known = std::find_if(kHeat.begin(), kHeat.end(),
                                  [&](const Heat& h) { return h.hardware == hardware; });
  terms.heat_factor = known == kHeat.end() ? kUnknownHeat : known->factor;
  // Memory-bound work suffers from lower clocks in proportion.
  terms.decode_heat_factor = {terms.heat_factor.value * 0.16, 0.5};
  SetEngine(engine, terms);
  const bool same_host = engine == StepEngine::kV1Async || engine == StepEngine::kFromPolicy;
  for (const StepTermField& field : kStepTermFields) {
    const std::optional<StepTerm>& term = fitted.*field.fitted;
    if (term && (same_host || !field.of_host)) terms.*field.value = *term;
  }
  return terms;
}

std::vector<std::uint32_t> CapturedSizes(std::uint32_t limit) {
  std::vector<std::uint32_t> sizes = {1, 2, 4};
  for (std::uint32_t size = 8; size < 256; size += 8) sizes.push_back(size);
  for (std::uint32_t size = 256; size <= limit; size += 16) sizes.push_back(size);
  while (!sizes.empty() && sizes.back() > limit) sizes.pop_back();
  return sizes;
}

}  // namespace twin::sim
