// Request files: their fields, defaults, and errors.
#include "config/recommend_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/input_error.h"

namespace twin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kRequest = R"(
  model { name: "llama-3-8b" }
  hardware { name: "h100-sxm" devices: 2 price_per_hour: 2.5 }
  workload { trace { path: "a.csv" } }
  slo { ttft_s: 1 }
)";

TEST(RecommendConfigTest, EveryFieldIsRead) {
  const RecommendConfig config = ParseRecommendation(kRequest + std::string(R"(
        model { name: "llama-3-70b" checkpoint: "meta-llama/x" }
        until: "p99_ttft_ms<=1000" objective: latency latency_metric: "p50_ttft_ms"
        settings { server: "vllm-0.33.0" tensor_parallel: [1, 2] pipeline_parallel: 1 replicas: 1
                   token_budget: 512 max_num_seqs: 64 gpu_memory_utilization: [0.8, 0.9]
                   weight_dtype: "fp8" max_batch_total_tokens: 8192 waiting_served_ratio: 1.2
                   schedule_policy: "lpm" context_chunking_policy: ["none"] }
        max_model_len: 4096 requests: 500 replications: 4 tolerance: 0.02 seed: 7
        set: "system.memory.block_size=32")"),
                                                     "r", "/folder");
  EXPECT_EQ(config.models[1].checkpoint, "meta-llama/x");
  EXPECT_EQ(config.hardware[0].devices, 2);
  EXPECT_EQ(config.hardware[0].price_per_hour, 2.5);
  EXPECT_EQ(config.objective, RecommendConfig::Objective::kLatency);
  EXPECT_THAT(config.settings.tensor_parallel, ElementsAre(1u, 2u));
  EXPECT_THAT(config.settings.gpu_memory_utilization, ElementsAre(0.8, 0.9));
  EXPECT_THAT(config.settings.max_batch_total_tokens, ElementsAre(8192u));
  EXPECT_THAT(config.settings.waiting_served_ratio, ElementsAre(1.2));
  EXPECT_THAT(config.settings.schedule_policy, ElementsAre("lpm"));
  EXPECT_THAT(config.settings.context_chunking_policy, ElementsAre("none"));
  EXPECT_EQ(config.max_model_len, 4096);
  EXPECT_EQ(config.requests, 500);
  EXPECT_EQ(config.replications, 4u);
  EXPECT_EQ(config.seed, 7u);
  const std::vector<std::string> system = {"system.model=\"llama-3-8b\"",
                                           "system.hardware=\"h100-sxm\"",
                                           "system.server=\"vllm-0.33.0\""};
  const ExperimentConfig experiment = config.experiment->With(system, {});
  EXPECT_EQ(experiment.workload.trace->path, "/folder/a.csv");
  EXPECT_EQ(experiment.system.memory.block_size, 32);
}

TEST(RecommendConfigTest, ErrorsSayWhatIsMissingOrAllowed) {
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      (void)ParseRecommendation(text, "r", "");
    } catch (const InputError& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of(kRequest), "");
  EXPECT_THAT(error_of("hardware { name: \"x\" }"), HasSubstr("r: workload: is missing"));
  EXPECT_THAT(error_of("workload {} hardware { name: \"x\" }"), HasSubstr("model: is missing"));
  EXPECT_THAT(error_of("workload {} model { name: \"x\" }"), HasSubstr("hardware: is missing"));
  EXPECT_THAT(error_of(kRequest + std::string("hardware { name: \"x\" } objective: cost")),
              HasSubstr("price_per_hour: is missing for x"));
  EXPECT_THAT(error_of("workload {} model { name: \"x\" } hardware { name: \"x\" }"),
              HasSubstr("until: is missing"));
  EXPECT_THAT(error_of(kRequest + std::string("settings { weight_dtype: \"fp4\" }")),
              HasSubstr("no value \"fp4\"; allowed: fp32"));
  EXPECT_THAT(error_of(kRequest + std::string("settings { schedule_policy: \"sjf\" }")),
              HasSubstr("settings.schedule_policy: no value \"sjf\"; allowed: fcfs, lpm, lof"));
  EXPECT_THAT(error_of(kRequest + std::string("settings { disaggregation: true }")),
              HasSubstr("disaggregation"));
}

}  // namespace
}  // namespace twin
