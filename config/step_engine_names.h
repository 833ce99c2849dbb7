// Names of the engines that prepare steps.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/cost.bind.h"
#include "sim/devices/step_profile.h"

namespace twin {

// All names but from_policy, for callers without a policy.
inline std::vector<std::pair<std::string, sim::StepEngine>> StepEnginesWithoutPolicy() {
  std::vector<std::pair<std::string, sim::StepEngine>> words;
  for (const auto& [name, engine] : ProfileCostEngineWords::kNames<sim::StepEngine>) {
    if (engine != sim::StepEngine::kFromPolicy) words.emplace_back(name, engine);
  }
  return words;
}

}  // namespace twin
