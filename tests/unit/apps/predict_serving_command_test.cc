// twinserve predict serving: a table of deployments whose latencies are known by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using ::testing::AllOf;
using testing::CommandOutcome;
using ::testing::HasSubstr;

// The columns of the tests. Every step takes 10 ms, and nothing else takes time.
constexpr const char* kHeader =
    "id,model,engine,version,device,isl,osl,concurrency,tp,range_ratio,max_batched_tokens\n";
constexpr const char* kVllm = "llama-3.1-8b,vllm,0.10.2,h100-sxm";

class PredictServingCommandTest : public testing::ExperimentFolderTest {
 protected:
  CommandOutcome Predict(const std::string& table, std::vector<std::string> more = {}) {
    Write("in.csv", table);
    std::vector<std::string> arguments = {"predict",
                                          "serving",
                                          "--in",
                                          "in.csv",
                                          "--out",
                                          "out.csv",
                                          "--set",
                                          "cost=constant { host_s: 0 step_s: 0.01 }",
                                          "--set",
                                          "system.boundary={ request_s { mean_s: 0 } response_s { "
                                          "mean_s: 0 } client_reaction_s { mean_s: 0 } }"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }

  // The lines of out.csv without the last cell, which is a hash.
  std::vector<std::string> Lines() {
    std::ifstream in(scratch_.path() / "out.csv");
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);)
      lines.push_back(line.substr(0, line.rfind(',')));
    return lines;
  }

  static std::string Row(const std::string& id, const std::string& rest) {
    return id + "," + kVllm + "," + rest + "\n";
  }
};

// Two users, prompts of 8 tokens, outputs of 5. One step computes both prompts, four decode: TTFT
// and TPOT are a step, and both users begin again when both have ended. Tokens per second:
// 2 x 5 / (10 + 4 x 10) ms.
TEST_F(PredictServingCommandTest, UsersInStepTakeOneStepAToken) {
  ASSERT_EQ(Predict(kHeader + Row("a", "8,5,2,1,1,")).exit_code, 0);
  ASSERT_EQ(Lines().size(), 2U);
  EXPECT_EQ(Lines()[0], "id,ttft_ms,tpot_ms,output_tokens_per_s,devices,refused,ignored");
  EXPECT_EQ(Lines()[1], "a,10,10,200,1,,");
}

// Outputs of one token, four users. A wide budget takes all four prompts in one step; one of 8
// tokens takes one prompt a step, so that the first four wait 10, 20, 30 and 40 ms, and the other
// 36 behind three others, 40 ms: 1,540 / 40 = 38.5 in the mean.
TEST_F(PredictServingCommandTest, TheFirstPromptsQueueForTheBudget) {
  ASSERT_EQ(
      Predict(kHeader + Row("wide", "8,1,4,1,1,8192") + Row("narrow", "8,1,4,1,1,8")).exit_code, 0);
  EXPECT_EQ(Lines()[1], "wide,10,,400,1,,");
  EXPECT_EQ(Lines()[2], "narrow,38.5,,103.896,1,,");
}

TEST_F(PredictServingCommandTest, ARowThatCannotBeSimulatedGetsOneReason) {
  const CommandOutcome outcome =
      Predict(kHeader + Row("a", "8,5,2,1,1,") + "b,no-such,vllm,0.10.2,h100-sxm,8,5,2,1,1,\n" +
              Row("c", "131072,5,2,1,1,") + Row("d", "8,x,2,1,1,") + Row("e", "8,5,2,1,1,"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("5 of 5 rows, 3 of them refused"));
  const std::vector<std::string> lines = Lines();
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_EQ(lines[1], "a,10,10,200,1,,");
  EXPECT_THAT(lines[2], HasSubstr("b,,,,,"));
  EXPECT_THAT(lines[2], HasSubstr("no-such"));
  EXPECT_THAT(lines[3], HasSubstr("isl + osl = 131077 is above the model's 131072 positions"));
  EXPECT_THAT(lines[4], HasSubstr("osl: is \"\"x\"\"; allowed: a whole number"));
  EXPECT_EQ(lines[5], "e,10,10,200,1,,");
}

TEST_F(PredictServingCommandTest, DeploymentsThatAreNotSimulatedAreRefused) {
  const std::string header =
      "id,model,engine,device,isl,osl,concurrency,tp,mode,attention_dp,ep,moe_tp,speculation,"
      "weights\n";
  const std::string row = ",qwen3-235b-a22b,vllm,h200-sxm,8,5,2,8,";
  ASSERT_EQ(Predict(header + "a" + row + "disagg,1,8,1,none,\nb" + row + "agg,8,8,1,none,\nc" +
                    row + "agg,1,4,2,none,\nd" + row + "agg,1,8,2,none,\ne" + row +
                    "agg,1,8,1,mtp,\nf" + row + "agg,1,8,1,none,fp3\n")
                .exit_code,
            0);
  const std::vector<std::string> lines = Lines();
  ASSERT_EQ(lines.size(), 7U);
  EXPECT_THAT(lines[1], HasSubstr("mode: is disagg; allowed: agg"));
  EXPECT_THAT(lines[2], HasSubstr("attention_dp: attention data parallelism"));
  EXPECT_THAT(lines[3], HasSubstr("ep: is 4 of 8 ranks; allowed: 1"));
  EXPECT_THAT(lines[4], HasSubstr("ep: 8 x moe_tp 2 is not tp 8"));
  EXPECT_THAT(lines[5], HasSubstr("speculation: is mtp; allowed: none"));
  EXPECT_THAT(lines[6], HasSubstr("weights: fp3 cannot be described"));
}

// A flag has the consequence of the column and of the option of `run` with its meaning.
TEST_F(PredictServingCommandTest, AFlagMeansWhatItsColumnMeans) {
  const std::string header =
      "id,model,engine,version,device,isl,osl,concurrency,tp,max_seqs,kv,server\n";
  const std::string vllm = ",llama-3.1-8b,vllm,0.10.2,h100-sxm,8,5,2,1,";
  const std::string sglang = ",llama-3.1-8b,sglang,0.5.23,h100-sxm,8,5,2,2,";
  ASSERT_EQ(Predict(header + "column" + vllm + "1,fp8,\n" + "flag" + vllm +
                        ",,--max-num-seqs=1;--kv-cache-dtype=fp8_e4m3\n" + "copies" + vllm +
                        ",,data-parallel-size=4\n" + "attention" + sglang +
                        ",,enable-dp-attention=true\n" + "typing" + vllm +
                        ",,max-num-seq=4;seed=0;attention-backend=FLASHINFER\n" + "ranks" + vllm +
                        ",,tensor-parallel-size=2\n" + "wrong" + vllm + ",,max-num-seqs=few\n",
                    {"--experiments", "made"})
                .exit_code,
            0);
  const std::vector<std::string> lines = Lines();
  ASSERT_EQ(lines.size(), 8U);
  EXPECT_EQ(lines[2].substr(4), lines[1].substr(6));
  EXPECT_THAT(Run({"resolve", "made/flag.textproto"}).out,
              AllOf(HasSubstr("max_num_seqs: 1"), HasSubstr("kv_dtype: fp8")));
  EXPECT_THAT(lines[3], HasSubstr("data_parallel_size: is 4; copies of the server"));
  EXPECT_THAT(lines[4], HasSubstr("enable_dp_attention: makes another deployment (data "
                                  "parallelism of attention)"));
  EXPECT_THAT(lines[5], HasSubstr(",1,,attention_backend;max_num_seq"));
  EXPECT_THAT(lines[6], HasSubstr(",2,,"));  // devices
  EXPECT_THAT(lines[7], HasSubstr("max_num_seqs: is few; allowed: a whole number"));
}

TEST_F(PredictServingCommandTest, RowsThatAreDoneAreKept) {
  ASSERT_EQ(Predict(kHeader + Row("a", "8,5,2,1,1,")).exit_code, 0);
  const CommandOutcome again = Predict(kHeader + Row("b", "8,1,2,1,1,") + Row("a", "8,5,2,1,1,"));
  ASSERT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.err, HasSubstr("kept 1 of 2 rows"));
  EXPECT_EQ(Lines()[1], "b,10,,200,1,,");
  EXPECT_EQ(Lines()[2], "a,10,10,200,1,,");
  // Another load under the same name is another row.
  const CommandOutcome other = Predict(kHeader + Row("a", "8,5,4,1,1,"));
  EXPECT_THAT(other.err, ::testing::Not(HasSubstr("kept")));
  EXPECT_EQ(Lines()[1], "a,10,10,400,1,,");
}

TEST_F(PredictServingCommandTest, WritesTheExperimentOfEachRow) {
  ASSERT_EQ(
      Predict(kHeader + Row("a", "1000,500,2,1,0.8,4096"), {"--experiments", "made"}).exit_code, 0);
  const CommandOutcome resolved = Run({"resolve", "made/a.textproto"});
  ASSERT_EQ(resolved.exit_code, 0) << resolved.err;
  EXPECT_THAT(resolved.out, HasSubstr("max_num_batched_tokens: 4096"));
  EXPECT_THAT(resolved.out, HasSubstr("requests: 20"));
  EXPECT_THAT(resolved.out, HasSubstr("min: 800"));
  EXPECT_THAT(resolved.out, HasSubstr("min: 400"));
}

TEST_F(PredictServingCommandTest, TheServerIsToldTheKernelsOfItsExperts) {
  Write("in.csv",
        "id,model,engine,version,device,isl,osl,concurrency,tp,server\n"
        "a,deepseek-r1,trtllm,1.1.0,b200,8,5,2,8,moe_config.backend=TRTLLM\n"
        "b,deepseek-r1,sglang,0.5.9,b200,8,5,2,8,moe-runner-backend=flashinfer_trtllm\n"
        "c,deepseek-r1,trtllm,1.1.0,b200,8,5,2,8,moe_config.backend=WIDEEP\n");
  ASSERT_EQ(
      Run({"predict", "serving", "--in", "in.csv", "--out", "out.csv", "--experiments", "made"})
          .exit_code,
      0);
  const auto resolved = [&](const std::string& name) {
    return Run({"resolve", "made/" + name + ".textproto"}).out;
  };
  EXPECT_THAT(resolved("a"), HasSubstr("experts_kernel: trtllm_gen"));
  EXPECT_THAT(resolved("a"), HasSubstr("library: trtllm"));
  EXPECT_THAT(resolved("b"), HasSubstr("experts_kernel: trtllm_gen"));
  EXPECT_THAT(resolved("b"), HasSubstr("library: sglang"));
  EXPECT_THAT(resolved("c"), ::testing::Not(HasSubstr("experts_kernel: trtllm_gen")));
}

// The measurements of this release that have unpublished settings and dense models show one slot
// less than users.
TEST_F(PredictServingCommandTest, AnObservedSlotIsLost) {
  const std::string header = "id,model,engine,version,device,isl,osl,concurrency,tp,max_seqs\n";
  ASSERT_EQ(Predict(header + "a,llama-3.1-8b,trtllm,1.0.0rc3,h100-sxm,8,5,8,1,\n" +
                        "b,llama-3.1-8b,trtllm,1.0.0rc3,h100-sxm,8,5,8,1,64\n" +
                        "c,llama-3.1-8b,trtllm,1.1.0,h100-sxm,8,5,8,1,\n" +
                        "d,qwen3-235b-a22b,trtllm,1.0.0rc3,h100-sxm,8,5,8,8,\n",
                    {"--experiments", "made"})
                .exit_code,
            0);
  const auto resolved = [&](const std::string& name) {
    return Run({"resolve", "made/" + name + ".textproto"}).out;
  };
  EXPECT_THAT(resolved("a"), HasSubstr("max_batch_size: 7"));
  EXPECT_THAT(resolved("b"), HasSubstr("max_batch_size: 64"));
  EXPECT_THAT(resolved("c"), HasSubstr("max_batch_size: 2048"));
  EXPECT_THAT(resolved("d"), HasSubstr("max_batch_size: 2048"));
}

TEST_F(PredictServingCommandTest, ATableWithoutItsColumnsIsOneError) {
  const CommandOutcome outcome = Predict("id,model\na,llama-3.1-8b\n");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("in.csv:1: header: column 'engine' is missing"));
  const CommandOutcome twice = Predict(kHeader + Row("a", "8,5,2,1,1,") + Row("a", "8,5,2,1,1,"));
  EXPECT_NE(twice.exit_code, 0);
  EXPECT_THAT(twice.err, HasSubstr("in.csv:3: id: found 'a'"));
}

TEST_F(PredictServingCommandTest, AnotherFileIsNotReplaced) {
  Write("out.csv", "a,b\n1,2\n");
  const CommandOutcome outcome = Predict(kHeader + Row("a", "8,5,2,1,1,"));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("out.csv exists and holds no predictions of deployments"));
}

}  // namespace
}  // namespace twin::apps
