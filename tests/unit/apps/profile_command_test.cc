// twinserve profile and fit as their users run them: on a tiny model, to the end and on from the
// middle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <map>
#include <thread>

#include "apps/profile_file.h"
#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::Not;

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
  [[nodiscard]] Profile Read() const { return ReadProfile(scratch_.File("p.csv")); }

  // How often each thing was measured.
  [[nodiscard]] std::map<std::string, int> Counts() const {
    std::map<std::string, int> counts;
    for (const ProfileRow& row : Read().rows) ++counts[row.key()];
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
  for (const ProfileRow& row : Read().rows) {
    EXPECT_GT(row.median_us, 0) << row.key();
    EXPECT_LE(row.p10_us, row.p90_us) << row.key();
    EXPECT_LE(row.totals.tokens(), Read().header.limits.tokens_max) << row.key();
  }

  const CommandOutcome fit = Run({"fit", "p.csv", "--out", "cost.textproto"});
  ASSERT_EQ(fit.exit_code, 0) << fit.err;
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
  EXPECT_THAT(burst.err, HasSubstr("larger than any that cost.fitted was measured on"));
  // What the run used stands in its directory.
  std::filesystem::remove(scratch_.File("cost.textproto"));
  const CommandOutcome again = Run({"run", "run/config.resolved.textproto", "--out", "again"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
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
    EXPECT_THAT(outcome.err, HasSubstr("interrupted: the same command goes on from here"));
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
  const Profile whole = Read();
  {
    ProfileWriter writer(scratch_.File("p.csv"), whole.header, true);
    writer.Add({whole.rows.begin(), whole.rows.end() - 20});
  }
  const CommandOutcome outcome = Run(Arguments({"--rounds", "1"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(" measurements more"));
  EXPECT_EQ(Read().rows.size(), whole.rows.size());
  for (const auto& [key, count] : Counts()) EXPECT_EQ(count, 1) << key;
  EXPECT_THAT(Run(Arguments({"--rounds", "1"})).err, HasSubstr(": 0 measurements more"));
}

TEST_F(ProfileCommandTest, RefusesInOneLine) {
  const auto expect = [&](const std::vector<std::string>& arguments, int exit_code,
                          const std::string& words) {
    const CommandOutcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(words));
  };
  expect(Arguments({"--device", "cuda"}), 2, "--device: cuda");
  expect(Arguments({"--dtype", "fp8"}), 2, "allowed: fp32, bf16, int8");
  expect({"fit", "absent.csv", "--out", "c.textproto"}, 1, "absent.csv: cannot be read");
  Write("p.csv", "# twinserve profile 1\n# machine: x\nnonsense\n");
  expect({"fit", "p.csv", "--out", "c.textproto"}, 1, "p.csv:3: instruction_set: expected here");
  expect(Arguments({}), 1, "p.csv:3: instruction_set");
  EXPECT_FALSE(std::filesystem::exists(scratch_.File("c.textproto")));
}

}  // namespace
}  // namespace twin::apps
