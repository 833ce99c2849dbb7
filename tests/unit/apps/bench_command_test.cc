// twinserve bench: the lines that scripts read, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include <nlohmann/json.hpp>

#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using nlohmann::json;
using testing::CommandOutcome;
using ::testing::HasSubstr;

constexpr const char* kConfig = R"({"model_type": "llama", "hidden_size": 32,
  "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "vocab_size": 50, "max_position_embeddings": 64,
  "rms_norm_eps": 1e-5, "tie_word_embeddings": true})";

constexpr const char* kLargeConfig = R"({"model_type": "llama", "hidden_size": 32768,
  "intermediate_size": 131072, "num_hidden_layers": 4096, "num_attention_heads": 256,
  "num_key_value_heads": 256, "vocab_size": 50, "max_position_embeddings": 64,
  "rms_norm_eps": 1e-5, "tie_word_embeddings": true})";

class BenchCommandTest : public testing::ExperimentFolderTest {
 protected:
  [[nodiscard]] CommandOutcome Bench(const std::vector<std::string>& more) const {
    Write("config.json", kConfig);
    std::vector<std::string> arguments = {"bench",     "--model", ".",         "--dummy-weights",
                                          "--threads", "1",       "--seconds", "0.05"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }
};

TEST_F(BenchCommandTest, PrintsOneJsonLineForEachMeasurement) {
  const CommandOutcome outcome =
      Bench({"--dtype", "fp32,bf16,int8", "--prefill", "24", "--decode", "5", "--batch", "1,3",
             "--context", "7", "--format", "json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::vector<std::string> seen;
  for (std::string text; std::getline(lines, text);) {
    const json line = json::parse(text);
    const std::string phase = line.at("phase");
    const auto batch = line.at("batch").get<std::int64_t>();
    seen.push_back(std::string(line.at("dtype")) + " " + phase + " " + std::to_string(batch));
    EXPECT_EQ(line.at("tokens"), phase == "prefill" ? 24 : 5 * batch);
    for (const char* rate : {"tokens_per_s", "gflops", "gb_per_s"}) {
      EXPECT_GT(line.at(rate).get<double>(), 0) << rate;
    }
    EXPECT_GE(line.at("repeats").get<std::int64_t>(), 1);
    EXPECT_GE(line.at("spread").get<double>(), 0);
    EXPECT_EQ(line.at("threads"), 1);
    // Two operations for each of the 2 x (32 x 64 + 32 x 32 + 3 x 32 x 48) weights and token, at
    // least; attention and the head come on top of that.
    EXPECT_GT(line.at("gflops").get<double>() * 1e9,
              2 * 15360 * line.at("tokens_per_s").get<double>());
  }
  EXPECT_THAT(seen, ::testing::ElementsAre("fp32 prefill 1", "fp32 decode 1", "fp32 decode 3",
                                           "bf16 prefill 1", "bf16 decode 1", "bf16 decode 3",
                                           "int8 prefill 1", "int8 decode 1", "int8 decode 3"));
}

TEST_F(BenchCommandTest, LeavesOutAPhaseOfNoTokens) {
  const CommandOutcome outcome = Bench(
      {"--prefill", "0", "--decode", "2", "--batch", "2", "--context", "7", "--format", "json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out).at("phase"), "decode");
}

TEST_F(BenchCommandTest, RefusesInOneLine) {
  struct Case {
    std::vector<std::string> arguments;
    const char* words;
  };
  for (const Case& c : {
           Case{{"--dtype", "fp32,fp4"}, "--dtype: \"fp4\" is unknown; allowed: fp32, bf16, int8"},
           Case{{"--kv-dtype", "int8"}, "allowed: fp32, bf16"},
           Case{{"--fp8-fast-accumulation"},
                "--fp8-fast-accumulation: is for fp8 weights on cuda, and these are fp32 on cpu"},
           Case{{"--prefill", "65", "--decode", "1"},
                "--prefill: 65 tokens in one sequence; the model allows 64"},
           Case{{"--prefill", "8", "--context", "60", "--decode", "5"}, "--context with --decode"},
           Case{{"--prefill", "0", "--decode", "0"}, "--prefill: and --decode are both 0"},
           Case{{"--batch", "0"}, "--batch"},
       }) {
    std::vector<std::string> arguments = {"--format", "json"};
    if (c.words != std::string("--context with --decode")) {
      arguments.insert(arguments.end(), {"--context", "8"});
    }
    arguments.insert(arguments.end(), c.arguments.begin(), c.arguments.end());
    const CommandOutcome outcome = Bench(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(c.words));
    EXPECT_EQ(outcome.out, "");
  }
}

TEST_F(BenchCommandTest, RefusesWhatMemoryDoesNotHold) {
  // 65 596 blocks of 65 536 tokens of 25 600 bytes each (200 layers' keys and values, 2 heads of 8,
  // fp32) are 110 TB; 4 bytes of 4096 layers' 4 x 32768^2 + 3 x 32768 x 131072 weights 281 TB.
  std::string deep = kConfig;
  deep.replace(deep.find("layers\": 2,"), 11, "layers\": 200,");
  struct Case {
    std::string config;
    const char* block_size;
  };
  for (const Case& c : {Case{deep, "65536"}, Case{kLargeConfig, "16"}}) {
    Write("config.json", c.config);
    const CommandOutcome outcome =
        Run({"bench", "--model", ".", "--dummy-weights", "--prefill", "8", "--decode", "2",
             "--context", "60", "--batch", "65536", "--block-size", c.block_size});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("; allowed: the "));
    EXPECT_EQ(outcome.out, "");
  }
}

TEST_F(BenchCommandTest, ADirectoryWithoutWeightsNeedsTheFlag) {
  Write("config.json", kConfig);
  const CommandOutcome outcome =
      Run({"bench", "--model", ".", "--prefill", "8", "--format", "json", "--context", "8"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("safetensors"));
}

TEST(DoctorCommandTest, MeasuresCeilingsWhenAsked) {
  const CommandOutcome outcome =
      testing::RunCommand(".", {"doctor", "--measure", "--threads", "1", "--format", "json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json ceilings = json::parse(outcome.out).at("ceilings");
  EXPECT_EQ(ceilings.at("threads"), 1);
  EXPECT_GE(ceilings.at("fp32_multiply_add").size(), 1U);
  EXPECT_GT(ceilings.at("fp32_multiply_add")[0].at("gflops").get<double>(), 0);
  EXPECT_GT(ceilings.at("read").at("gb_per_s").get<double>(), 0);
}

}  // namespace
}  // namespace twin::apps
