#include "run/own_policy.h"

namespace twin::run {

std::optional<ExperimentConfig> WithOwnPolicy(const ExperimentConfig& config) {
  if (!config.policy_file || config.own_policy != nullptr) return std::nullopt;
  ExperimentConfig loaded = config;
  LoadOwnPolicy(loaded);
  return loaded;
}

}  // namespace twin::run
