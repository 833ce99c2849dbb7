// The context limit of a policy against the positions of the model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "config/experiment_config.h"
#include "core/input_error.h"
#include "sched/policy/static_batching.h"
#include "sched/policy/vllm_v0.h"
#include "sched/policy/vllm_v1.h"
#include "tests/support/unique_name.h"

namespace twin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PolicyContextTest : public ::testing::Test {
 protected:
  PolicyContextTest() {
    std::ofstream(file_)
        << "schema_version: 1 workload { requests: 1 preset: conversation arrivals { kind: poisson "
           "rate: 1 } } policy { vllm_v1 {} } "
           "system { model: 'llama-3-8b' hardware: 'h100-sxm' }";
  }
  ~PolicyContextTest() override { std::filesystem::remove(file_); }

  ExperimentConfig Read(const std::vector<std::string>& overrides) {
    return ReadExperiment(file_, overrides);
  }
  std::string ErrorOf(const std::vector<std::string>& overrides) {
    try {
      (void)Read(overrides);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / testing::UniqueName("policy_context");
};

// With max_model_len 4096 whatever the model, longer requests were rejected without a word.
TEST_F(PolicyContextTest, TheContextOfAPolicyIsTheModelsUnlessItIsGiven) {
  for (const std::string_view policy : PolicyNames()) {
    // Padded batches are bounded by nothing but memory.
    if (policy == "static" || policy == "triton") continue;
    const std::string name(policy);
    const ExperimentConfig config = Read({"policy=" + name});
    EXPECT_EQ(TraitsOf(config.policy).context_tokens_max, 8192) << name;
    const std::string resolved = WriteResolved(config);
    EXPECT_EQ(WriteResolved(ParseExperiment(resolved, "resolved", "/")), resolved);
  }
  const auto v0 = Read({"policy=vllm_v0"}).policy.Get<VllmV0Config>();
  EXPECT_EQ(v0.max_model_len, 8192);
  EXPECT_EQ(v0.max_num_batched_tokens, 8192);
  const auto chunked =
      Read({"policy=vllm_v0 {enable_chunked_prefill: true}"}).policy.Get<VllmV0Config>();
  EXPECT_EQ(chunked.max_num_batched_tokens, 2048);
  const auto smaller =
      Read({"policy=static {padded: false}", "system.model_shape={max_position: 1000}"})
          .policy.Get<StaticConfig>();
  EXPECT_EQ(smaller.max_model_len, 1000);
}

TEST_F(PolicyContextTest, RefusesAContextBeyondTheModelsExceptInRecordedConfigs) {
  for (const char* const policy :
       {"vllm_v1 {max_model_len: 8193}", "sarathi {max_model_len: 8193}",
        "splitfuse {max_length: 8193}", "orca {max_model_len: 8193}",
        "static {max_model_len: 8193}", "vllm_v0 {max_model_len: 8193}"}) {
    const std::string name(policy, std::string_view(policy).find(' '));
    EXPECT_THAT(ErrorOf({std::string("policy=") + policy}),
                AllOf(HasSubstr("policy." + name + ".max_"), HasSubstr("is 8193"),
                      HasSubstr("at most 8192, the positions of the model")));
  }
  const std::string recorded = WriteResolved(
      Read({"policy=vllm_v1 {max_model_len: 8192}", "system.memory.max_model_length=4000"}));
  const std::string beyond =
      std::regex_replace(recorded, std::regex("max_model_len: 8192"), "max_model_len: 9000");
  ASSERT_NE(beyond, recorded);
  const auto again = ParseExperiment(beyond, "record", "/").policy.Get<VllmV1Config>();
  EXPECT_EQ(again.max_model_len, 9000);
}

// It was built before it was validated, and divided by zero.
TEST_F(PolicyContextTest, ValidatesThePolicyBeforeAnythingIsDerivedFromIt) {
  EXPECT_THAT(ErrorOf({"policy=sarathi {enable_dynamic_chunking_schedule: true}"}),
              AllOf(HasSubstr("policy.sarathi.low_chunk_size"), HasSubstr("must be at least 1")));
}

}  // namespace
}  // namespace twin
