// twinserve replay: a run decided again, and records that are not what was written.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "run/files/record_file.h"
#include "sched/policy/registry.h"
#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ReplayCommandTest : public testing::ExperimentFolderTest {
 protected:
  void ExpectRefused(const CommandOutcome& outcome, const std::string& file) {
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(file));
    EXPECT_THAT(outcome.out, IsEmpty());
  }
};

TEST_F(ReplayCommandTest, DecidesTheSameFromTheDirectoryAndFromTheRecord) {
  const std::string digest = RunSmall("run")["digest"];
  for (const char* what : {"run", "run/", "run/record.pb"}) {
    const CommandOutcome outcome = Run({"replay", what});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_THAT(outcome.out, HasSubstr("recorded " + digest));
    EXPECT_THAT(outcome.out, HasSubstr("decided  " + digest));
    EXPECT_THAT(outcome.out, HasSubstr("\nequal\n"));
  }
}

class EveryPolicyReplaysTest : public testing::ExperimentFolderTest,
                               public ::testing::WithParamInterface<std::string_view> {};

// The system that a policy needs, or that it is made for.
std::string SystemOf(std::string_view policy) {
  if (policy == "distserve") return "disaggregation { prefill_replicas: 2 decode_replicas: 2 }";
  if (policy == "splitwise") {
    return "disaggregation { prefill_replicas: 2 decode_replicas: 2 mixed_pool {} }";
  }
  return "";
}

TEST_P(EveryPolicyReplaysTest, ToTheSameDigest) {
  Write("small.textproto",
        fmt::format("base: 'base.textproto'\nunset: 'policy'\npolicy {{ {} {{}} }}\n"
                    "system {{ {} memory {{ blocks_override: 600 }} }}",
                    GetParam(), SystemOf(GetParam())));
  Write("base.textproto", testing::kSmallExperiment);
  (void)RunSmall("run");
  const CommandOutcome outcome = Run({"replay", "run"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\nequal\n"));
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicyReplaysTest, ::testing::ValuesIn(PolicyNames()),
                         [](const auto& test) { return std::string(test.param); });

// The record's frames, under a config with a smaller batch: the engine soon decides differently.
TEST_F(ReplayCommandTest, ShowsTheFirstPlanThatDiffers) {
  (void)RunSmall("run");
  RecordReader reader(scratch_.path() / "run/record.pb");
  RecordHeader header = reader.header();
  const std::size_t at = header.config.find("max_num_seqs: 16");
  ASSERT_NE(at, std::string::npos);
  header.config.replace(at, 16, "max_num_seqs: 3");
  RecordWriter writer(scratch_.path() / "other.pb", header, Compression::kNone);
  for (Instant instant; reader.NextInstant(instant);) {
    writer.OnInstant(instant);
    while (const StepPlan* plan = reader.NextPlan()) writer.OnPlan(instant.now, *plan);
  }
  writer.Finish();
  const CommandOutcome outcome = Run({"replay", "other.pb"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("decided differs from recorded after "));
  EXPECT_THAT(outcome.out, HasSubstr(" equal plans\n"));
}

TEST_F(ReplayCommandTest, RefusesARecordWithoutItsHeader) {
  (void)RunSmall("run");
  const std::string record = ReadText(scratch_.File("run/record.pb"));
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}}) {
    Write("run/record.pb", record.substr(0, length));
    ExpectRefused(Run({"replay", "run"}), "run/record.pb");
  }
}

// A run that ended says in its summary what its record holds.
TEST_F(ReplayCommandTest, RefusesARecordThatWasCutAfterTheRun) {
  (void)RunSmall("run");
  const std::string record = ReadText(scratch_.File("run/record.pb"));
  Write("run/record.pb", record.substr(0, record.size() / 2));
  const CommandOutcome outcome = Run({"replay", "run"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("summary  "));
  EXPECT_THAT(outcome.err, HasSubstr("was cut or changed after the run"));
  EXPECT_EQ(Run({"replay", "run/record.pb"}).exit_code, 1);
  Write("run/summary.json", "{}");
  ExpectRefused(Run({"replay", "run"}), "run/summary.json");
}

// What a killed run has left: no summary.
TEST_F(ReplayCommandTest, ReplaysARecordWithoutAnEndAsFarAsItGoes) {
  (void)RunSmall("run");
  std::filesystem::remove(scratch_.path() / "run/summary.json");
  const std::string record = ReadText(scratch_.File("run/record.pb"));
  ASSERT_GT(record.size(), 1000u);
  for (const std::size_t length : {record.size() / 3, record.size() - 1}) {
    Write("run/record.pb", record.substr(0, length));
    const CommandOutcome outcome = Run({"replay", "run"});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_THAT(outcome.err, HasSubstr("the record has no end"));
    EXPECT_THAT(outcome.out, HasSubstr("equal"));
  }
}

TEST_F(ReplayCommandTest, RefusesARecordWithAFlippedBit) {
  (void)RunSmall("run", {"--set", "outputs.compress_record=false"});
  const std::string record = ReadText(scratch_.File("run/record.pb"));
  for (std::size_t i = 1; i < 8; ++i) {
    std::string damaged = record;
    char& byte = damaged[record.size() * i / 8];
    byte = static_cast<char>(byte ^ (1 << i));
    Write("run/record.pb", damaged);
    ExpectRefused(Run({"replay", "run"}), "run/record.pb");
  }
}

TEST_F(ReplayCommandTest, RefusesWhatIsNoRun) {
  std::filesystem::create_directory(scratch_.path() / "folder");
  for (const char* what : {"nope", "folder"}) {
    const CommandOutcome outcome = Run({"replay", what});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(what));
  }
}

}  // namespace
}  // namespace twin::apps
