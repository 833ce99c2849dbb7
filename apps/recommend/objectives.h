// The objectives of a recommendation.
#pragma once

#include <array>
#include <string>

#include "config/recommend_config.h"
#include "core/check.h"

namespace twin::run {

struct ObjectiveTraits {
  RecommendConfig::Objective objective{};
  const char* name = "";
  const char* unit = "";
  bool lower_is_better = false;
  bool searches_load = false;  // the value is found at the largest load that keeps the bounds
};

inline constexpr std::array kObjectives = {
    ObjectiveTraits{RecommendConfig::Objective::kGoodput, "goodput", "requests/s", false, true},
    ObjectiveTraits{RecommendConfig::Objective::kCost, "cost", "per 1,000 requests", true, true},
    ObjectiveTraits{RecommendConfig::Objective::kLatency, "latency", "ms", true, false},
    ObjectiveTraits{RecommendConfig::Objective::kEnergy, "energy", "J per output token", true,
                    false},
    ObjectiveTraits{RecommendConfig::Objective::kUsers, "users", "users", false, true},
    // Without prices, a number of devices.
    ObjectiveTraits{RecommendConfig::Objective::kFleet, "fleet", "per hour", true, false}};

inline const ObjectiveTraits& ObjectiveTraitsOf(RecommendConfig::Objective objective) {
  for (const ObjectiveTraits& traits : kObjectives) {
    if (traits.objective == objective) return traits;
  }
  CHECK(false);
  return kObjectives.front();
}

// The metric that the objective makes as small as possible at the load of the workload; empty = it
// looks for a load or a fleet.
inline std::string MinimisedMetric(const RecommendConfig& request) {
  if (request.objective == RecommendConfig::Objective::kLatency) return request.latency_metric;
  const bool is_energy = request.objective == RecommendConfig::Objective::kEnergy;
  return is_energy ? "energy_per_output_token_j" : "";
}

}  // namespace twin::run
