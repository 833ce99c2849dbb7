// twinserve recommend: what it prints, writes and refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using nlohmann::json;
using testing::CommandOutcome;
using ::testing::HasSubstr;

constexpr const char* kRequest = R"(
model { name: "llama-3-8b" }
hardware { name: "h100-sxm" }
workload {
  arrivals { kind: poisson rate: 10 }
  shape { prompt { kind: fixed value: 100 } output { kind: fixed value: 10 } }
}
until: "p99_ttft_ms<=500"
settings {
  server: "vllm-0.33.0" token_budget: [256, 512] max_num_seqs: 8
  gpu_memory_utilization: 0.9 weight_dtype: ["bf16", "fp32"]
}
requests: 200 replications: 3
set: ["cost.linear.base_s=0.005", "system.memory.blocks_override=600"]
)";

class RecommendCommandTest : public testing::ExperimentFolderTest {
 protected:
  RecommendCommandTest() { Write("request.textproto", kRequest); }
};

TEST_F(RecommendCommandTest, PrintsRanksCommandAndSensitivities) {
  const CommandOutcome outcome = Run({"recommend", "request.textproto", "--jobs", "2"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* text :
       {"hardware: h100-sxm", "rank", "goodput (requests/s)", "vllm serve llama-3-8b",
        "doubling token_budget changes nothing", "assumed: ", "not considered: "})
    EXPECT_THAT(outcome.out, HasSubstr(text));
}

TEST_F(RecommendCommandTest, WritesAnExperimentOfEachConfigurationThatRuns) {
  const CommandOutcome outcome =
      Run({"recommend", "request.textproto", "--format", "json", "--out", "answer"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const json printed = json::parse(outcome.out);
  EXPECT_EQ(printed["configurations"].size(), 4u);
  EXPECT_EQ(ReadText(scratch_.File("answer/recommendation.json")), outcome.out);
  const CommandOutcome run = Run({"run", "answer/configurations/1.textproto", "--out", "run"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(SummaryOf("run")["completed"], 200);
}

TEST_F(RecommendCommandTest, ALimitOfTimeThatSufficesChangesNothing) {
  const CommandOutcome outcome = Run({"recommend", "request.textproto"});
  const CommandOutcome timed = Run({"recommend", "request.textproto", "--time-limit", "10000"});
  EXPECT_EQ(timed.exit_code, 0) << timed.err;
  EXPECT_EQ(timed.out, outcome.out);
  EXPECT_EQ(timed.err, outcome.err);
}

TEST_F(RecommendCommandTest, SaysWhatTheLimitOfTimeLeftOut) {
  const CommandOutcome outcome =
      Run({"recommend", "request.textproto", "--time-limit", "0.001", "--out", "answer"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err,
              HasSubstr("time limit of 0.001 s: left out: the comparison of configurations\n"
                        "without the limit, the same command goes on with answer/evaluations"));
  EXPECT_THAT(outcome.err, HasSubstr("no configuration was compared within the time limit\n"));
}

TEST_F(RecommendCommandTest, SaysWhyNothingIsLeft) {
  std::string text = kRequest;
  text.replace(text.find("llama-3-8b"), 10, "llama-3-70b");
  text.erase(text.find(", \"system.memory"), 37);
  Write("large.textproto", text);
  const CommandOutcome outcome = Run({"recommend", "large.textproto"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out,
              HasSubstr("rejected (4), such as llama-3-70b on 1 x h100-sxm, vllm-0.33.0"));
  EXPECT_THAT(outcome.err, HasSubstr("no configuration is left"));
}

TEST_F(RecommendCommandTest, WritesNoFilesForAServerThatDoesNotExist) {
  std::string text = kRequest;
  text.replace(text.find("{ name: \"h100-sxm\" }"), 21, "{ name: \"h100-sxm\" devices: 4 ffn {} }");
  Write("apart.textproto", text);
  const CommandOutcome outcome = Run({"recommend", "apart.textproto", "--deploy", "files"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("--deploy: no server keeps attention and feed-forward"));
}

TEST_F(RecommendCommandTest, PrintsHowAttentionAndFfnShareTheDevices) {
  std::string text = kRequest;
  text.replace(text.find("{ name: \"h100-sxm\" }"), 21, "{ name: \"h100-sxm\" devices: 4 ffn {} }");
  text.replace(text.find("\"cost.linear.base_s=0.005\""), 26, "\"cost.roofline.host_s=0\"");
  text.replace(text.find("[\"bf16\", \"fp32\"]"), 16, "\"bf16\" micro_batches: [1, 2]");
  Write("apart.textproto", text);
  const CommandOutcome outcome = Run({"recommend", "apart.textproto", "--jobs", "2"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"ffn_hardware: h100-sxm", "attention_groups", "ffn_devices",
                           "micro_batches", "no command to start it"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
  EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr("vllm serve")));
}

TEST_F(RecommendCommandTest, RefusesMistakesWithOneLine) {
  Write("wrong.textproto", std::string(kRequest) + "disaggregation: true");
  const CommandOutcome outcome = Run({"recommend", "wrong.textproto"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("disaggregation"));
}

}  // namespace
}  // namespace twin::apps
