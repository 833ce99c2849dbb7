// twinserve profile and fit as their users run them: on a tiny model, to the end and on from the
// middle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <map>
#include <thread>

#include "apps/profile/profile_measurements.h"
#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr const char* kConfig = R"({"model_type": "llama", "hidden_size": 32,
  "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "vocab_size": 50, "max_position_embeddings": 128,
  "rms_norm_eps": 1e-5, "tie_word_embeddings": true})";

constexpr const char* kExperiment = R"(
workload { requests: 20 arrivals { kind: poisson rate: 50 } shape {
  prompt { kind: uniform min: 4 max: 100 } output { kind: uniform min: 2 max: 12 } } }
policy { vllm_v1 { max_num_batched_tokens: 256 max_num_seqs: 32 max_model_len: 128 } }
system { model: "./config.json" hardware: "cpu-generic"
         model_shape { weight_dtype: fp32 kv_dtype: fp32 } memory { blocks_override: 500 } }
cost { fitted { path: "cost.textproto" } }
)";

class ProfileCommandTest : public testing::ExperimentFolderTest {
 protected:
  ProfileCommandTest() { Write("config.json", kConfig); }

  [[nodiscard]] static std::vector<std::string> Arguments(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"profile",   "--model", ".",       "--dummy-weights",
                                          "--threads", "1",       "--quick", "--batch-max",
                                          "8",         "--out",   "p.csv"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  [[nodiscard]] run::Profile Read() const { return run::ReadProfile(scratch_.File("p.csv")); }
  void Replace(const run::Profile& profile) const {
    run::ProfileWriter(scratch_.File("p.csv"), profile.header, true).Add(profile.rows);
  }

  // How often each thing was measured.
  [[nodiscard]] std::map<std::string, int> Counts() const {
    std::map<std::string, int> counts;
    for (const run::ProfileRow& row : Read().rows) ++counts[row.key()];
    return counts;
  }
};

TEST_F(ProfileCommandTest, MeasuresEverythingInEveryRoundAndFitsAModelThatRuns) {
  const CommandOutcome outcome = Run(Arguments({}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::map<std::string, int> kinds;
  for (const auto& [key, count] : Counts()) {
    EXPECT_EQ(count, 3) << key;
    ++kinds[key.substr(0, key.find(','))];
  }
  EXPECT_GE(kinds["step"], 60);
  EXPECT_GE(kinds["operation"], 60);
  EXPECT_GE(kinds["host"], 3);
  for (const run::ProfileRow& row : Read().rows) {
    EXPECT_GT(row.median_us, 0) << row.key();
    EXPECT_LE(row.p10_us, row.p90_us) << row.key();
    EXPECT_LE(row.totals.tokens(), Read().header.limits.tokens_max) << row.key();
  }
  // What measuring the host wrote is gone.
  EXPECT_THAT(Files(), UnorderedElementsAre("config.json", "p.csv", "small.textproto"));

  const CommandOutcome fit = Run({"fit", "p.csv", "--out", "cost.textproto"});
  ASSERT_EQ(fit.exit_code, 0) << fit.err;
  EXPECT_THAT(fit.out, Not(HasSubstr("unknown")));
  EXPECT_THAT(fit.out, HasSubstr("errors on 20 that were held out"));
  EXPECT_THAT(fit.out, HasSubstr("device total"));
  Write("e.textproto", kExperiment);
  const CommandOutcome run = Run({"run", "e.textproto", "--out", "run"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, Not(HasSubstr("warning")));
  // 32 requests at once are more than the 8 that were measured.
  const CommandOutcome burst =
      Run({"run", "e.textproto", "--out", "burst", "--set", "workload.arrivals.rate=1e6"});
  EXPECT_EQ(burst.exit_code, 0) << burst.err;
  EXPECT_THAT(burst.err, HasSubstr("larger than any step that cost.fitted was measured on"));
  // What the run used stands in its directory.
  std::filesystem::remove(scratch_.File("cost.textproto"));
  const CommandOutcome again = Run({"run", "run/config.resolved.textproto", "--out", "again"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
}

TEST_F(ProfileCommandTest, MeasuresAndFitsTheExpertsOfAMixture) {
  Write("config.json", R"({"model_type": "qwen2_moe", "hidden_size": 32, "num_experts": 5,
    "num_experts_per_tok": 2, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 40,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 50,
    "max_position_embeddings": 128, "tie_word_embeddings": true})");
  const CommandOutcome outcome = Run(Arguments({"--rounds", "1"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::map<std::string, int> counts = Counts();
  for (const char* const name : {"gemm_router", "gemm_expert_up", "gemm_expert_down",
                                 "gemm_shared_up", "gemm_shared_down", "expert_routing"}) {
    EXPECT_TRUE(counts.contains(std::string("operation,") + name + ",8")) << name;
  }
  EXPECT_FALSE(counts.contains("operation,gemm_up,8"));
  const CommandOutcome fit = Run({"fit", "p.csv", "--out", "cost.textproto"});
  ASSERT_EQ(fit.exit_code, 0) << fit.err;
  EXPECT_THAT(fit.out, HasSubstr("unknown"));  // the noise of a single round
  Write("e.textproto", kExperiment);
  const CommandOutcome run = Run({"run", "e.textproto", "--out", "run"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

TEST_F(ProfileCommandTest, GoesOnWhereItWasInterrupted) {
  {
    testing::Command command(scratch_.path(), Arguments({"--rounds", "40"}));
    const std::filesystem::path file = scratch_.File("p.csv");
    for (int i = 0; i < 3000; ++i) {
      std::error_code none_yet;
      if (std::filesystem::file_size(file, none_yet) > 20'000 && !none_yet) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    command.Signal(SIGINT);
    const CommandOutcome outcome = command.Wait();
    EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("interrupted: the same command continues from here"));
  }
  const std::size_t before = Read().rows.size();
  EXPECT_GT(before, 0U);
  // The same but for fewer rounds cannot go on.
  const CommandOutcome other = Run(Arguments({"--rounds", "3"}));
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_TRUE(other.wrote_one_line()) << other.err;
  EXPECT_THAT(other.err, HasSubstr("rounds: the file was begun with 40, this is 3"));
  EXPECT_EQ(Read().rows.size(), before);
}

TEST_F(ProfileCommandTest, MeasuresOnlyWhatIsMissing) {
  ASSERT_EQ(Run(Arguments({"--rounds", "1"})).exit_code, 0);
  const run::Profile whole = Read();
  Replace({whole.header, {whole.rows.begin(), whole.rows.end() - 20}});
  // Killed in the middle of a row.
  std::ofstream(scratch_.File("p.csv"), std::ios::binary | std::ios::app) << "operation,gemm_h";
  const CommandOutcome outcome = Run(Arguments({"--rounds", "1"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(" more measurements"));
  EXPECT_EQ(Read().rows.size(), whole.rows.size());
  for (const auto& [key, count] : Counts()) EXPECT_EQ(count, 1) << key;
  EXPECT_THAT(Run(Arguments({"--rounds", "1"})).err, HasSubstr(": 0 more measurements"));
}

TEST_F(ProfileCommandTest, AFileThatWasBegunKeepsItsLimits) {
  ASSERT_EQ(Run(Arguments({"--rounds", "1"})).exit_code, 0);
  const auto expect_refusal = [&](const std::vector<std::string>& more, const std::string& words) {
    std::vector<std::string> arguments = {"--rounds", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandOutcome outcome = Run(Arguments(arguments));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(words));
  };
  // The model has 128 positions.
  expect_refusal({"--context-max", "100"},
                 "--context-max: asks for 100, but p.csv was begun with 128; allowed: the same");
  EXPECT_EQ(Run(Arguments({"--rounds", "1", "--context-max", "4096"})).exit_code, 0);
  run::Profile other = Read();
  other.header.limits.batch_max = 16;
  other.header.limits.tokens_max = 64;
  Replace(other);
  expect_refusal({}, "--batch-max: asks for 8, but p.csv was begun with 16");
  other.header.limits.batch_max = 8;
  Replace(other);
  expect_refusal({"--tokens-max", "32"}, "--tokens-max: asks for 32, but p.csv was begun with 64");
  const CommandOutcome more = Run(Arguments({"--rounds", "1", "--tokens-max", "128"}));
  EXPECT_EQ(more.exit_code, 0) << more.err;
  EXPECT_THAT(more.err, HasSubstr("p.csv was begun with steps of up to 64 tokens"));
}

TEST_F(ProfileCommandTest, FitRefusesHolesAndSaysWhatLacksRounds) {
  ASSERT_EQ(Run(Arguments({"--rounds", "1"})).exit_code, 0);
  run::Profile profile = Read();
  profile.header.rounds = 2;
  Replace(profile);
  const CommandOutcome few = Run({"fit", "p.csv", "--out", "c.textproto"});
  EXPECT_EQ(few.exit_code, 0) << few.err;
  const std::string all = std::to_string(profile.rows.size());
  EXPECT_THAT(few.err, HasSubstr("warning: p.csv: " + all + " of " + all +
                                 " measurements have fewer than 2 rounds"));
  for (const char* key : {"operation,gemm_up,4", "step,mix 7,0", "host,decode,4"}) {
    run::Profile holed = profile;
    EXPECT_EQ(
        std::erase_if(holed.rows, [&](const run::ProfileRow& row) { return row.key() == key; }),
        1U);
    Replace(holed);
    const CommandOutcome outcome = Run({"fit", "p.csv", "--out", "d.textproto"});
    EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("p.csv: lacks 1 of " + all +
                                       " measurements, the first is \"" + key + "\""));
  }
  EXPECT_EQ(Files().count("d.textproto"), 0U);
}

TEST_F(ProfileCommandTest, RefusesInOneLine) {
  const auto expect = [&](const std::vector<std::string>& arguments, int exit_code,
                          const std::string& words) {
    const CommandOutcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(words));
  };
  expect(Arguments({"--dtype", "fp8"}), 2, "allowed: fp32, bf16, int8");
  expect({"fit", "absent.csv", "--out", "c.textproto"}, 1, "absent.csv: cannot be read");
  Write("p.csv", "# twinserve profile 1\n# machine: x\nnonsense\n");
  expect({"fit", "p.csv", "--out", "c.textproto"}, 1, "p.csv:3: instruction_set: expected here");
  expect(Arguments({}), 1, "p.csv:3: instruction_set");
  EXPECT_FALSE(std::filesystem::exists(scratch_.File("c.textproto")));
  // 4 bytes of each of 4096 layers' 3 x 32768 x 131072 weights and more: 200 TB.
  std::filesystem::remove(scratch_.File("p.csv"));
  std::string large = kConfig;
  for (const auto& [from, to] :
       {std::pair{"size\": 32", "size\": 32768"}, std::pair{"size\": 48", "size\": 131072"},
        std::pair{"layers\": 2", "layers\": 4096"}}) {
    large.replace(large.find(from), std::string(from).size(), to);
  }
  Write("config.json", large);
  expect(Arguments({}), 2, "; allowed: the ");
  EXPECT_FALSE(std::filesystem::exists(scratch_.File("p.csv")));
}

}  // namespace
}  // namespace twin::apps
