// twinserve schedule: decisions in unit time, and their comparison with expected ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "apps/schedule/schedule_case.h"
#include "apps/schedule/schedule_run.h"
#include "core/input_error.h"
#include "tests/unit/apps/experiment_folder.h"
#include "tests/unit/apps/schedule_lines.h"

namespace twin::apps {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kChunkedCase;
using testing::kPaddedCase;

class ScheduleCommandTest : public testing::ExperimentFolderTest {
 protected:
  CommandOutcome Check(const std::string& cases) {
    Write("cases.ndjson", cases);
    return Run({"schedule", "--check", "--cases", "cases.ndjson"});
  }

  static std::string Changed(std::string line, const std::string& from, const std::string& to) {
    const std::size_t at = line.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return line.replace(at, from.size(), to);
  }
};

TEST_F(ScheduleCommandTest, CountsTheMatchedCasesOfEachVariant) {
  const CommandOutcome outcome =
      Check(std::string(kChunkedCase) + "\n" + kPaddedCase + "\n" + kChunkedCase + "\n");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "static_padded: 1/1 matched\nvllm_v1: 2/2 matched\n");
}

// The decode of request 0 in iteration 2 is one token long.
TEST_F(ScheduleCommandTest, ShowsTheFirstDifferenceInTheNotesNotation) {
  const std::string wrong = Changed(kChunkedCase, R"([0,"D",1])", R"([0,"D",7])");
  const CommandOutcome outcome = Check(wrong + "\n" + kChunkedCase + "\n");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("vllm_v1: 1/2 matched\n     vllm_v1-ex4a\n"));
  EXPECT_THAT(outcome.out, HasSubstr("expected it2: 0:D7 1:P3 2:P3"));
  EXPECT_THAT(outcome.out, HasSubstr("decided  it2: 0:D1 1:P3 2:P3"));
}

// Request 1 has 5 + 1 tokens, and V1 computes nothing behind the sixth; request 0 is too long.
TEST_F(ScheduleCommandTest, OutputsEndWhereTheContextDoes) {
  Write("cases.ndjson", Changed(kChunkedCase, "\"max_model_len\":64", "\"max_model_len\":6"));
  const CommandOutcome outcome = Run({"schedule", "--cases", "cases.ndjson"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const json first = json::parse(outcome.out)["steps"][0];
  EXPECT_EQ(first["rejected"], json::array({0}));
  EXPECT_EQ(first["work"], json::parse(R"([[1,"P",5]])"));
  EXPECT_EQ(first["finished"], json::array({1}));
}

TEST_F(ScheduleCommandTest, AMissingStepIsADifference) {
  const std::string longer = Changed(kChunkedCase, R"({"it":4,)", R"({"it":3,"work":[]},{"it":4,)");
  EXPECT_EQ(Check(longer + "\n").exit_code, 1);
  ordered_json shorter = ordered_json::parse(kChunkedCase);
  shorter["steps"].erase(3);
  const CommandOutcome outcome = Check(shorter.dump() + "\n");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("expected nothing more\n     decided  it4: 1:D1"));
}

// What it decides can be checked against itself.
TEST_F(ScheduleCommandTest, WritesDecisionsInTheFormOfTheCases) {
  json bare = json::parse(kChunkedCase);
  bare.erase("steps");
  Write("bare.ndjson", bare.dump() + "\n");
  const CommandOutcome decided = Run({"schedule", "--cases", "bare.ndjson"});
  ASSERT_EQ(decided.exit_code, 0) << decided.err;
  const json result = json::parse(decided.out);
  EXPECT_EQ(result["case"], "vllm_v1-ex4a");
  ASSERT_EQ(result["steps"].size(), 4u);
  EXPECT_EQ(result["steps"][2]["finished"], json({0, 2}));
  bare["steps"] = result["steps"];
  const CommandOutcome checked = Check(bare.dump() + "\n");
  EXPECT_EQ(checked.exit_code, 0) << checked.out;
}

// Blocks of 4, chunks of at most 8 tokens. Request 0 leaves before call 2, in which request 1 gets
// its blocks; request 2 leaves as it comes, and the call behind it has no work.
TEST_F(ScheduleCommandTest, ARequestLeavesBeforeTheCallOfItsCancellation) {
  Write("cases.ndjson",
        R"({"case":"c","policy":"vllm_v1_033","params":{"max_num_batched_tokens":8,)"
        R"("max_num_seqs":4,"max_model_len":64},"kv":{"block_size":4,"blocks":2},)"
        R"("requests":[{"id":0,"step":1,"prompt":7,"output":9,"max_new":9,"cancel":2},)"
        R"({"id":1,"step":1,"prompt":8,"output":1,"max_new":1},)"
        R"({"id":2,"step":4,"prompt":8,"output":1,"max_new":1,"cancel":4}]})"
        "\n");
  const CommandOutcome outcome = Run({"schedule", "--cases", "cases.ndjson"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json steps = json::parse(outcome.out)["steps"];
  ASSERT_EQ(steps.size(), 3u) << outcome.out;
  EXPECT_EQ(steps[0]["work"], json::parse(R"([[0,"P",7]])"));
  EXPECT_EQ(steps[1]["cancelled"], json::array({0}));
  EXPECT_EQ(steps[1]["work"], json::parse(R"([[1,"P",8]])"));
  EXPECT_EQ(steps[2]["it"], 4);
  EXPECT_EQ(steps[2]["cancelled"], json::array({2}));
  EXPECT_THAT(steps[2]["work"], IsEmpty());
}

struct BadLine {
  std::string name;
  std::string from;
  std::string to;
  std::string says;
};

void PrintTo(const BadLine& line, std::ostream* out) { *out << line.name; }

class ScheduleRefusalTest : public ScheduleCommandTest,
                            public ::testing::WithParamInterface<BadLine> {};

// The other case of the file is decided.
TEST_P(ScheduleRefusalTest, IsOneLineThatNamesLineAndField) {
  const std::string bad = Changed(kChunkedCase, GetParam().from, GetParam().to);
  const CommandOutcome outcome = Check(bad + "\n" + kPaddedCase + "\n");
  EXPECT_EQ(outcome.exit_code, 1);  // data, whatever is wrong with them
  EXPECT_EQ(outcome.out, "static_padded: 1/1 matched\n");
  EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("cases.ndjson:1"));
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Lines, ScheduleRefusalTest,
    ::testing::Values(
        BadLine{"CutShort", R"("example":"4a",)", R"("example":)", "not a JSON object"},
        BadLine{"NoName", R"("case":)", R"("kase":)", "'kase' is unknown"},
        BadLine{"NoPool", R"("kv":)", R"("vk":)", "'vk' is unknown"},
        BadLine{"NoSteps", R"("steps":)", R"("stops":)", "'stops' is unknown"},
        BadLine{"TheQuestionBeforeTheAnswer", R"("example":"4a",)", R"("chosen":[0],"events":[],)",
                "'events' is unknown"},
        BadLine{"AnAnswerAlone", R"("example":"4a",)", R"("chosen":[0],)", "'chosen' is unknown"},
        BadLine{"UnknownPolicy", R"("policy":"vllm_v1")", R"("policy":"vllm_v2")", "vllm_v2"},
        BadLine{"UnknownParameter", "max_num_seqs", "max_num_sets", "max_num_sets"},
        BadLine{"UnknownFieldOfARequest", R"("prompt":6,)", R"("prompt":6,"lora":1,)",
                "requests[0]: field 'lora' is unknown"},
        BadLine{"UnknownFieldOfThePool", R"("blocks":8)", R"("blocks":8,"pages":2)",
                "kv: field 'pages' is unknown"},
        BadLine{"LeavesBeforeItComes", R"({"id":0,"step":1)", R"({"id":0,"step":1,"cancel":0)",
                "'cancel' is 0"},
        BadLine{"NegativePrompt", R"("prompt":6)", R"("prompt":-6)", "'prompt' is -6"},
        BadLine{"FractionOfATurn", R"("prompt":6)", R"("prompt":6.5)", "'prompt' is 6.5"},
        BadLine{"OutputAboveItsLimit", R"("output":3,"max_new":3)", R"("output":3,"max_new":2)",
                "'max_new' is 2"},
        BadLine{"WrongNumber", R"({"id":1,)", R"({"id":7,)", "'id'"},
        BadLine{"ArrivalsOutOfOrder", R"({"id":0,"step":1)", R"({"id":0,"step":2)", "'step'"},
        BadLine{"TokensThatAreNotThePrompt", R"("prompt":6,)", R"("prompt":6,"tokens":[1],)",
                "'tokens'"},
        BadLine{"MoreBlocksThanAnyMachine", R"("blocks":8)", R"("blocks":2000000000)", "'blocks'"},
        BadLine{"LongerThanAnyContext", R"("prompt":6,)", R"("prompt":2000000000,)", "'prompt'"},
        BadLine{"WorkThatIsNone", R"([0,"P",6])", R"([0,6,"P"])", "'work'"}),
    [](const auto& test) { return test.param.name; });

TEST_F(ScheduleCommandTest, DraftsForAPolicyWithoutAreRefusedByTheirField) {
  const CommandOutcome outcome =
      Check(Changed(kPaddedCase, R"("params":{)",
                    R"("params":{"num_speculative_tokens":2,"spec_method":"ngram",)") +
            "\n");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err,
              HasSubstr("cases.ndjson:1: params: field 'num_speculative_tokens' is set"));
}

TEST_F(ScheduleCommandTest, RefusesAFileWithoutCases) {
  const CommandOutcome outcome = Check("");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("cases.ndjson: holds no case"));
  EXPECT_EQ(Run({"schedule", "--cases", "nope.ndjson"}).exit_code, 1);
}

}  // namespace
}  // namespace twin::apps
