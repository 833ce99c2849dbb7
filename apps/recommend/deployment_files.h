// Files that start configurations of a recommendation, and check their predictions.
#pragma once

#include <cstddef>
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
// compares; prediction.textproto; README.md; for several engines nginx.conf, or proxy.sh if some
// only prefill; and kubernetes.yaml. `index` is that of the configuration, by rank.
// REQUIRES: the answer has this configuration.
std::vector<DeploymentFile> DeploymentFiles(const Recommendation& answer,
                                            const RecommendConfig& request, std::size_t index = 0);

// Makes the folder and writes the files of the first configuration with the weights of the
// checkpoint into it, and those of the best two by rank with other commands into its folders 2 and
// 3. Throws InputError.
void WriteDeployment(const Recommendation& answer, const RecommendConfig& request,
                     const std::filesystem::path& folder);

}  // namespace twin::run
