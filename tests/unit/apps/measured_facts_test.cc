// twinserve validate --measured: what a file says of its server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/apps/experiment_folder.h"
#include "tests/unit/apps/measured_files.h"

namespace twin::apps {
namespace {

using ::testing::AllOf;
using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::Not;

class MeasuredFactsTest : public testing::ExperimentFolderTest {
 protected:
  [[nodiscard]] CommandOutcome Validate(const std::string& file,
                                        const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"validate", "--measured", file, "--out", "out"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }
};

TEST_F(MeasuredFactsTest, FactsOfTheFileAreOptionsThatNeedNotBeGiven) {
  Write("facts.json",
        std::string("{") + testing::kMeasuredLists + R"(, "start_times": [0, 0.005, 0.2, 0.3],
          "model_id": "meta-llama/Llama-3.1-8B", "vllm_version": "0.15.1", "gpu": "h100",
          "tp": "1", "num_gpu_blocks": "20000", "max_num_batched_tokens": "4096"})");
  const CommandOutcome outcome = Validate("facts.json", {});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string report = ReadText(scratch_.File("out/report.md"));
  EXPECT_THAT(report,
              AllOf(HasSubstr("--model meta-llama/Llama-3.1-8B (model_id)"),
                    HasSubstr("20000 KV blocks (num_gpu_blocks)"), HasSubstr("tokens a step: 4096"),
                    HasSubstr("known KV blocks, half the token budget (2048), "),
                    HasSubstr("| an older server (vLLM 0.8.5) | TTFT mean |")));
}

TEST_F(MeasuredFactsTest, ContradictionsAreSaid) {
  Write("facts.json",
        std::string("{") + testing::kMeasuredLists + R"(, "start_times": [0, 0.005, 0.2, 0.3],
          "model_id": "meta-llama/Llama-3.1-8B", "vllm_version": "0.15.1", "gpu": "h100",
          "tp": "1", "tensor_parallel_size": 2, "max_num_seqs": 64})");
  const CommandOutcome outcome = Validate("facts.json", {"--max-num-seqs", "32"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("tp is 1, but tensor_parallel_size is 2: the latter is taken"),
                    HasSubstr("max_num_seqs says 64, but policy.vllm_v1.max_num_seqs is 32, which "
                              "is simulated")));
}

TEST_F(MeasuredFactsTest, FactsMeanWhatTheOptionsOfTheirNameMean) {
  Write("sglang.json", testing::SglangTotals(R"("page_size":16,"speculative_algorithm":"EAGLE",
"log_level":"debug","new_key":3,"device":"cuda","disaggregation_mode":"null","api_key":"sk-1")"));
  const CommandOutcome outcome = Validate("sglang.json", {"--hardware", "h100"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(ReadText(scratch_.File("out/report.md")),
              AllOf(HasSubstr("--page-size 16 (server_info.page_size)"),
                    HasSubstr("said of the server, not simulated: "),
                    HasSubstr("accept_length 2.85 (tokens of a step with drafts)"),
                    HasSubstr("the server verified drafts, and the simulation does not: "),
                    HasSubstr("speculative_algorithm EAGLE (drafts)"), HasSubstr("new_key 3"),
                    Not(HasSubstr("log_level")), Not(HasSubstr("sk-1")),
                    Not(HasSubstr("disaggregation_mode"))));
  Write("sglang.json", testing::SglangTotals(R"("dp_size":8,"enable_dp_attention":true)"));
  const CommandOutcome refused = Validate("sglang.json", {"--hardware", "h100"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(refused.wrote_one_line()) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("server_info.enable_dp_attention: makes another deployment "
                                     "(data parallelism of attention)"));
}

}  // namespace
}  // namespace twin::apps
