// twinserve generate: files in, files out, and what it says of bad input. The tiny model's expected
// tokens are those of transformers (tests/golden/models/README.md).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <limits>
#include <thread>

#include "apps/generate/prompt_file.h"
#include "core/input_error.h"
#include "core/random.h"
#include "tests/golden/models/reference_model.h"
#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using nlohmann::json;
using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::ReferenceModel;

constexpr const char* kPrompts = R"({"prompt": 4, "token_ids": [1, 2, 3]}
{"prompt": 2, "token_ids": [18]}
)";

constexpr const char* kSmallSteps = R"({"max_num_batched_tokens": 16, "max_num_seqs": 3})";

class GenerateCommandTest : public testing::ExperimentFolderTest {
 protected:
  static std::string TinyModel() {
    return std::string(TWIN_SOURCE_DIR) + "/tests/golden/models/tiny-llama";
  }

  [[nodiscard]] CommandOutcome Generate(const std::string& prompts,
                                        const std::vector<std::string>& more = {}) const {
    Write("p.ndjson", prompts);
    std::vector<std::string> arguments = {"generate", "--model", TinyModel(), "--prompts",
                                          "p.ndjson", "--out",   "g.ndjson"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }

  [[nodiscard]] std::vector<json> Lines() const {
    std::vector<json> lines;
    std::ifstream in(scratch_.File("g.ndjson"));
    for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
    return lines;
  }

  // Exit code, one line with these words, no output file of any name.
  void ExpectRefusal(const CommandOutcome& outcome, int exit_code, const std::string& words) const {
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(words));
    for (const std::string& file : Files()) EXPECT_THAT(file, Not(HasSubstr("g.ndjson")));
  }
};

TEST_F(GenerateCommandTest, GivesTheReferenceTokensAndLogitsInTheOrderOfThePrompts) {
  const ReferenceModel reference = testing::ReadReference(TinyModel());
  std::string prompts;
  for (std::size_t i = 0; i < reference.prompts.size(); ++i) {
    prompts += json{{"prompt", i}, {"token_ids", reference.prompts[i].tokens}}.dump() + "\n";
  }
  const CommandOutcome outcome =
      Generate(prompts, {"--logits", "all", "--max-new-tokens", "24", "--policy", "vllm_v1_033",
                         "--policy-params", kSmallSteps});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(outcome.out, HasSubstr("prompts 4, new tokens 96"));
  const std::vector<json> lines = Lines();
  ASSERT_EQ(lines.size(), reference.prompts.size());
  const testing::ReferenceTolerance tolerance = reference.Tolerance(DType::kFp32);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].at("prompt"), i);
    EXPECT_EQ(
        testing::FirstWrongToken(lines[i].at("greedy"), reference.prompts[i], tolerance.margin),
        -1);
    EXPECT_LE(
        testing::RelativeDistance(lines[i].at("last_logits"), reference.prompts[i].last_logits),
        tolerance.logits);
    ASSERT_EQ(lines[i].at("all_logits").size(), reference.prompts[i].tokens.size());
    EXPECT_EQ(lines[i].at("all_logits").back(), lines[i].at("last_logits"));
  }
}

TEST_F(GenerateCommandTest, WritesWhatIsAskedFor) {
  ASSERT_EQ(Generate(kPrompts, {"--logits", "none", "--max-new-tokens", "3"}).exit_code, 0);
  const std::vector<json> bare = Lines();
  ASSERT_EQ(bare.size(), 2U);
  EXPECT_EQ(bare[0].at("prompt"), 4);
  EXPECT_EQ(bare[0].at("greedy").size(), 3U);
  EXPECT_FALSE(bare[0].contains("last_logits"));
  ASSERT_EQ(Generate(kPrompts, {"--dtype", "bf16", "--policy", "vllm_v0"}).exit_code, 0);
  EXPECT_EQ(Lines()[1].at("last_logits").size(), 19U);
  EXPECT_FALSE(Lines()[1].contains("all_logits"));
}

// Prompt 2 alone is prompt 2 beside another one; with another seed it is not.
TEST_F(GenerateCommandTest, SamplesByTheSeedAndThePromptsNumber) {
  const std::vector<std::string> options = {
      "--logits", "none",    "--temperature", "1.5",    "--top-k", "12",         "--top-p",
      "0.95",     "--min-p", "0.001",         "--seed", "7",       "--logprobs", "2"};
  ASSERT_EQ(Generate(kPrompts, options).exit_code, 0);
  const std::vector<json> both = Lines();
  ASSERT_EQ(both.size(), 2U);
  EXPECT_FALSE(both[1].contains("greedy"));
  ASSERT_EQ(both[1].at("sampled").size(), 24U);
  ASSERT_EQ(both[1].at("logprobs").size(), 24U);
  for (std::size_t t = 0; t < 24; ++t) {
    const json& told = both[1].at("logprobs")[t];
    ASSERT_EQ(told.size(), 3U);
    EXPECT_EQ(told[0][0], both[1].at("sampled")[t]);
    EXPECT_LE(told[0][1], told[1][1]);
    EXPECT_LE(told[2][1], told[1][1]);
    EXPECT_LE(told[1][1], 0);
  }
  const std::string alone = R"({"prompt": 2, "token_ids": [18]})";
  ASSERT_EQ(Generate(alone, options).exit_code, 0);
  EXPECT_EQ(Lines()[0], both[1]);
  std::vector<std::string> reseeded = options;
  *(std::find(reseeded.begin(), reseeded.end(), "7")) = "8";
  ASSERT_EQ(Generate(alone, reseeded).exit_code, 0);
  EXPECT_NE(Lines()[0].at("sampled"), both[1].at("sampled"));
}

TEST_F(GenerateCommandTest, RefusesSamplingOutOfRange) {
  ExpectRefusal(Generate(kPrompts, {"--temperature", "-1"}), 2, "--temperature");
  ExpectRefusal(Generate(kPrompts, {"--top-p", "0"}), 2, "--top-p");
  ExpectRefusal(Generate(kPrompts, {"--min-p", "1.5"}), 2, "--min-p");
  ExpectRefusal(Generate(kPrompts, {"--top-k", "-3"}), 2, "--top-k");
}

TEST_F(GenerateCommandTest, RefusesBadPromptsNamingTheirLine) {
  const std::string good = "{\"prompt\": 0, \"token_ids\": [1]}\n";
  ExpectRefusal(Generate(good + "{\"prompt\": 1, \"token_ids\": [19]}"), 1,
                "p.ndjson:2: field 'token_ids' holds 19; allowed: whole numbers from 0 to 18");
  ExpectRefusal(Generate(good + good), 1, "p.ndjson:2: prompt 0 is there twice");
  ExpectRefusal(Generate("{\"prompt\": 0, \"token_ids\": []}"), 1, "at least one token id");
  ExpectRefusal(Generate("{\"prompt\": 0, \"token_ids\": [-1]}"), 1, "holds -1");
  ExpectRefusal(Generate("{\"prompt\": -2, \"token_ids\": [1]}"), 1, "field 'prompt'");
  ExpectRefusal(Generate("{\"prompt\": 0, \"token"), 1, "p.ndjson:1: is no JSON object");
  ExpectRefusal(Generate(""), 1, "p.ndjson: holds no prompt");
}

TEST_F(GenerateCommandTest, RefusesPromptsThatTheModelHasNoPositionsFor) {
  json prompt{{"prompt", 0}, {"token_ids", std::vector<int>(250, 1)}};
  ExpectRefusal(Generate(prompt.dump(), {"--max-new-tokens", "7"}), 1,
                "has 250 tokens; the model's positions allow 249");
  ExpectRefusal(Generate(kPrompts, {"--max-new-tokens", "256"}), 2, "--max-new-tokens");
}

TEST_F(GenerateCommandTest, RefusesWhatItCannotDo) {
  ExpectRefusal(Generate(kPrompts, {"--dtype", "fp16"}), 2, "allowed: fp32, bf16, int8");
  ExpectRefusal(Generate(kPrompts, {"--device", "tpu"}), 2, "--device");
  ExpectRefusal(Generate(kPrompts, {"--fp8-fast-accumulation"}), 2,
                "--fp8-fast-accumulation: is for fp8 weights on cuda, and these are fp32 on cpu");
  ExpectRefusal(Generate(kPrompts, {"--dtype", "fp64"}), 2, "--dtype");
  ExpectRefusal(Generate(kPrompts, {"--policy", "vllm_v7"}), 2, "no policy \"vllm_v7\"");
  ExpectRefusal(Generate(kPrompts, {"--policy-params", "{\"max_num_sexs\": 3}"}), 2,
                "max_num_seqs");
  ExpectRefusal(Generate(kPrompts, {"--logits", "all", "--policy-params",
                                    "{\"enable_prefix_caching\": true}"}),
                2, "prefix caching");
}

TEST_F(GenerateCommandTest, RefusesACacheThatMemoryDoesNotHold) {
  for (const char* option : {"--kv-blocks", "--host-blocks"}) {
    ExpectRefusal(Generate(kPrompts, {option, "100000000", "--block-size", "65536"}), 2,
                  "; allowed: the ");
  }
  ExpectRefusal(Generate(kPrompts, {"--kv-blocks", "100000000", "--block-size", "65536",
                                    "--tensor-parallel", "2"}),
                2, "memory: ");
}

TEST_F(GenerateCommandTest, RefusesFilesThatAreNotThere) {
  Write("p.ndjson", kPrompts);
  ExpectRefusal(
      Run({"generate", "--model", "nowhere", "--prompts", "p.ndjson", "--out", "g.ndjson"}), 1,
      "nowhere: no such file or directory");
  ExpectRefusal(
      Run({"generate", "--model", TinyModel(), "--prompts", "q.ndjson", "--out", "g.ndjson"}), 1,
      "q.ndjson: cannot be read");
  ExpectRefusal(Run({"generate", "--model", TinyModel(), "--prompts", "p.ndjson", "--out",
                     "nowhere/g.ndjson"}),
                1, "nowhere/g.ndjson: cannot be written");
}

// Hours of work, stopped by a signal once the output file has been opened.
class InterruptedGenerateTest : public GenerateCommandTest {
 protected:
  [[nodiscard]] CommandOutcome GenerateInterrupted(int signal, std::chrono::milliseconds later,
                                                   const std::vector<std::string>& more) const {
    std::string prompts;
    for (int i = 0; i < 50'000; ++i) {
      prompts += fmt::format("{{\"prompt\": {}, \"token_ids\": [1, 2, 3]}}\n", i);
    }
    Write("p.ndjson", prompts);
    std::vector<std::string> arguments = {
        "generate", "--model",         TinyModel(), "--prompts",        "p.ndjson", "--out",
        "g.ndjson", "--threads",       "1",         "--max-new-tokens", "200",      "--logits",
        "none",     "--policy-params", kSmallSteps};
    arguments.insert(arguments.end(), more.begin(), more.end());
    testing::Command command(scratch_.path(), arguments);
    for (int i = 0; i < 3000 && !HasOutput(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    std::this_thread::sleep_for(later);
    command.Signal(signal);
    return command.Wait();
  }

  [[nodiscard]] bool HasOutput() const {
    const std::set<std::string> files = Files();
    return std::any_of(files.begin(), files.end(), [](const std::string& file) {
      return file.starts_with("g.ndjson.partial.");
    });
  }
};

TEST_F(InterruptedGenerateTest, LeavesNothingAndSaysSo) {
  ExpectRefusal(GenerateInterrupted(SIGINT, std::chrono::milliseconds(500), {}), 1,
                "interrupted: no output was written");
}

TEST_F(InterruptedGenerateTest, SigtermWhileTheModelIsLoadedDoesTheSame) {
  ExpectRefusal(GenerateInterrupted(SIGTERM, std::chrono::milliseconds(0), {}), 1,
                "interrupted: no output was written");
}

TEST_F(InterruptedGenerateTest, RanksThatAreThreadsEndTogether) {
  ExpectRefusal(
      GenerateInterrupted(SIGINT, std::chrono::milliseconds(500), {"--tensor-parallel", "2"}), 1,
      "interrupted: no output was written");
}

// One file that is not there yet, through a link that was.
TEST_F(GenerateCommandTest, WritesThroughALinkAndKeepsIt) {
  std::filesystem::create_symlink("target", scratch_.path() / "g.ndjson");
  ASSERT_EQ(Generate(kPrompts, {"--logits", "none", "--max-new-tokens", "3"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(scratch_.path() / "g.ndjson"));
  EXPECT_TRUE(std::filesystem::is_regular_file(scratch_.path() / "target"));
  EXPECT_EQ(Lines().size(), 2U);
}

TEST(PromptFileTest, LogitsComeBackBitByBitAndNotANumberAsNull) {
  Random random(1, "logits");
  exec::Generation generation{.prompt = {1}, .tokens_max = 1};
  for (int i = 0; i < 1000; ++i) {
    generation.last_logits.push_back(static_cast<float>(random.Normal() * 1e3));
  }
  generation.last_logits[7] = std::numeric_limits<float>::quiet_NaN();
  const json line = json::parse(GenerationLine(3, generation, exec::KeptLogits::kLast));
  for (std::size_t i = 0; i < generation.last_logits.size(); ++i) {
    if (i == 7) {
      EXPECT_TRUE(line["last_logits"][i].is_null());
      continue;
    }
    EXPECT_EQ(line["last_logits"][i].get<float>(), generation.last_logits[i]);
  }
}

TEST(PromptFileTest, SurvivesDamagedLines) {
  Random random(9, "prompts");
  const ScratchDirectory scratch("prompts");
  const std::string path = scratch.File("p");
  std::int32_t refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = kPrompts;
    const std::int64_t changes = random.UniformInt(1, 3);
    for (std::int64_t change = 0; change < changes; ++change) {
      const auto at = static_cast<std::size_t>(
          random.UniformInt(0, static_cast<std::int64_t>(text.size()) - 1));
      text[at] = static_cast<char>(random.UniformInt(0, 255));
    }
    std::ofstream(path, std::ios::binary) << text;
    try {
      for (const Prompt& prompt : ReadPrompts(path, {.vocab = 19, .tokens_max = 9})) {
        for (const std::int32_t id : prompt.token_ids) ASSERT_TRUE(id >= 0 && id < 19);
      }
    } catch (const InputError& error) {
      ++refused;
      ASSERT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace twin::apps
