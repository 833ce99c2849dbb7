// Mechanisms of a server that are not simulated are named in one line, where they matter.
#include "run/server_differences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "run/config_warnings.h"
#include "run/deployment.h"

namespace twin::run {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kShared = "shared_prefix { prompts: 1 tokens: 4000 }";

ExperimentConfig Served(const std::string& server, const std::string& model,
                        const std::string& shape = "", const std::string& more = "",
                        const std::string& system = "") {
  return ParseExperiment(
      "seed: 1 workload { requests: 20 arrivals { kind: poisson rate: 2 } shape { prompt { kind: "
      "fixed value: 200 } output { kind: fixed value: 5 } " +
          shape + " } } system { model: '" + model + "' hardware: 'h100-sxm' server: '" + server +
          "' " + system + " } " + more,
      "e", "/");
}

// All but the first of 20 prompts repeat 4,000 of their 4,200 tokens: 19 / 20 x 4000 / 4200.
TEST(ServerDifferencesTest, TensorRtLlmReusesBlocksWherePromptsShare) {
  const std::string line =
      "system.server: TensorRT-LLM 1.0.0 reuses the blocks of shared prefixes "
      "(enable_block_reuse); here every prompt is computed; 90 % of the prompt tokens repeat "
      "earlier prompts";
  ExperimentConfig config = Served("trtllm-1.0.0", "llama-3-8b", kShared);
  EXPECT_THAT(ServerDifferences(config),
              ElementsAre(HasSubstr("90 % of the prompt tokens repeat earlier prompts")));
  config.system.server_asked = "TensorRT-LLM 1.0.0";
  EXPECT_THAT(ServerDifferences(config), ElementsAre(line));
  EXPECT_THAT(WarningsOf(Resolve(config)), Contains(line));
  EXPECT_THAT(ServerDifferences(Served("trtllm-1.0.0", "llama-3-8b")), IsEmpty());
}

// Later turns repeat the earlier ones.
TEST(ServerDifferencesTest, TurnsOfConversationsShare) {
  const std::string turns =
      "sessions { turns { kind: fixed value: 4 } think { mean_s: 1 } context_tokens_max: 8000 }";
  EXPECT_THAT(ServerDifferences(Served("trtllm-1.0.0", "llama-3-8b", turns)),
              ElementsAre(HasSubstr("of the prompt tokens repeat")));
}

TEST(ServerDifferencesTest, StatesAreFoundAtOtherTokensWherePrefixesAreCached) {
  EXPECT_THAT(ServerDifferences(Served("sglang-0.5.23", "qwen3.5-27b", kShared)),
              ElementsAre(HasSubstr("at multiples of 256 tokens")));
  EXPECT_THAT(ServerDifferences(Served("sglang-0.5.23", "qwen3.5-27b")), IsEmpty());
  EXPECT_THAT(ServerDifferences(Served("sglang-0.5.23", "qwen3.5-27b", kShared,
                                       "policy { sglang { radix_cache: false } }")),
              IsEmpty());
}

TEST(ServerDifferencesTest, StagesThatPlanAhead) {
  const std::string two = "pipeline_parallel: 2";
  EXPECT_THAT(ServerDifferences(Served("vllm-0.23.0", "llama-3-8b", "", "", two)),
              ElementsAre(HasSubstr("plans steps ahead with several stages")));
  EXPECT_THAT(ServerDifferences(Served("vllm-0.33.0", "llama-3-8b", "", "", two)), IsEmpty());
  EXPECT_THAT(ServerDifferences(Served("vllm-0.23.0", "llama-3-8b")), IsEmpty());
}

TEST(ServerDifferencesTest, AnotherPolicyHasNone) {
  EXPECT_THAT(
      ServerDifferences(Served("trtllm-1.0.0", "llama-3-8b", kShared, "policy { vllm_v1 {} }")),
      IsEmpty());
}

}  // namespace
}  // namespace twin::run
