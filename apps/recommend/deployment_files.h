// Files that start the first configuration of a recommendation, and check its prediction.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/recommend/recommendation.h"

namespace twin::run {

struct DeploymentFile {
  std::string name;
  std::string text;
};

// server.sh, which starts one engine; bench.sh, which measures all with `vllm bench serve` and
// compares; prediction.textproto; README.md; for several engines nginx.conf; and kubernetes.yaml,
// unless some engines only prefill. REQUIRES: the answer has a configuration.
std::vector<DeploymentFile> DeploymentFiles(const Recommendation& answer,
                                            const RecommendConfig& request);

// Writes them into the folder, which is made. Throws InputError.
void WriteDeployment(const Recommendation& answer, const RecommendConfig& request,
                     const std::filesystem::path& folder);

}  // namespace twin::run
