// Studies: which points they have, and what their runs give.
#include "apps/study/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "apps/study/study_sample.h"
#include "config/profile_folder.h"
#include "core/input_error.h"
#include "run/simulation.h"
#include "sched/policy/orca.h"
#include "sched/policy/vllm_v1.h"
#include "tests/unit/apps/study_folder.h"

namespace twin::run {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StudyTest : public testing::StudyFolderTest {
 protected:
  // The columns of all points, as rows.
  static std::vector<std::vector<std::string>> PointsOf(const Study& study) {
    std::vector<std::vector<std::string>> points;
    for (std::size_t i = 0; i < study.points(); ++i) points.push_back(study.ValuesOf(i));
    return points;
  }

  std::string ErrorOf(const std::string& text) {
    try {
      (void)Make(text);
    } catch (const InputError& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return error.what();
    }
    return "";
  }
};

TEST_F(StudyTest, AGridHasAllCombinationsAndTheLastAxisIsTheFastest) {
  const Study study = Make(R"(base: "vllm.textproto"
    axis { path: "workload.arrivals.rate" values: [2, 4.5] }
    axis { path: "policy.vllm_v1.max_num_seqs" from: 1 to: 16 steps: 3 log: true })");
  EXPECT_THAT(study.columns(),
              ElementsAre("workload.arrivals.rate", "policy.vllm_v1.max_num_seqs"));
  EXPECT_THAT(PointsOf(study), ElementsAre(ElementsAre("2", "1"), ElementsAre("2", "4"),
                                           ElementsAre("2", "16"), ElementsAre("4.5", "1"),
                                           ElementsAre("4.5", "4"), ElementsAre("4.5", "16")));
  const ExperimentConfig config = study.ConfigOf(4);
  EXPECT_EQ(config.workload.arrivals.rate, 4.5);
  EXPECT_EQ(config.policy.Get<VllmV1Config>().max_num_seqs, 4);
  EXPECT_EQ(config.seed, 3u);
}

TEST_F(StudyTest, RangesHaveShortNumbersAndWholeOnesForWholeFields) {
  const Study linear = Make(R"(base: "vllm.textproto"
    axis { path: "workload.arrivals.rate" from: 0.1 to: 0.7 steps: 7 })");
  EXPECT_EQ(linear.ValuesOf(2)[0], "0.3");  // not 0.30000000000000004
  // 1, 1.41, 2, 2.83, 4: rounded and without the second 1.
  const Study whole = Make(R"(base: "vllm.textproto"
    axis { path: "policy.vllm_v1.max_num_seqs" from: 1 to: 4 steps: 5 log: true })");
  EXPECT_THAT(PointsOf(whole),
              ElementsAre(ElementsAre("1"), ElementsAre("2"), ElementsAre("3"), ElementsAre("4")));
}

TEST_F(StudyTest, CoupledFieldsChangeTogether) {
  const Study study = Make(R"(base: "vllm.textproto"
    axis {
      path: "policy.vllm_v1.max_num_seqs" values: [8, 16]
      coupled { path: "policy.vllm_v1.max_num_batched_tokens" values: ["128", "256"] }
    })");
  EXPECT_THAT(PointsOf(study), ElementsAre(ElementsAre("8", "128"), ElementsAre("16", "256")));
}

TEST_F(StudyTest, SeveralExperimentsAreTheSlowestAxis) {
  const Study study = Make(R"(base: ["vllm.textproto", "orca.textproto"]
    axis { path: "workload.requests" values: [5, 6] })");
  EXPECT_THAT(study.columns(), ElementsAre("base", "workload.requests"));
  EXPECT_EQ(study.points(), 4u);
  EXPECT_THAT(study.ValuesOf(2), ElementsAre("orca.textproto", "5"));
  EXPECT_NE(study.ConfigOf(2).policy.If<OrcaConfig>(), nullptr);
}

TEST_F(StudyTest, WholeMessagesAndWordsAreValues) {
  const Study study = Make(R"(base: "vllm.textproto"
    axis { path: "policy" values: [orca, "vllm_v1 { max_num_seqs: 2 }"] }
    axis { path: "workload.arrivals.kind" values: [constant] })");
  EXPECT_NE(study.ConfigOf(0).policy.If<OrcaConfig>(), nullptr);
  EXPECT_EQ(study.ConfigOf(1).policy.Get<VllmV1Config>().max_num_seqs, 2);
}

TEST_F(StudyTest, ALatinHypercubeHasOnePointInEachInterval) {
  const UnitSample sample = LatinHypercube(3, 10, 5);
  ASSERT_EQ(sample.size(), 3u);
  for (const std::vector<double>& values : sample) {
    std::set<int> intervals;
    for (const double value : values) intervals.insert(static_cast<int>(value * 10));
    EXPECT_EQ(intervals.size(), 10u);
  }
  EXPECT_NE(sample[0], sample[1]);
  EXPECT_EQ(LatinHypercube(3, 10, 5), sample);
}

// The sequence as Boost.Random documents it.
TEST_F(StudyTest, ASobolSampleCoversTheRangesEvenly) {
  const Study study = Make(R"(base: "vllm.textproto"
    sampling { kind: sobol points: 4 }
    axis { path: "workload.arrivals.rate" from: 0 to: 8 }
    axis { path: "policy.vllm_v1.max_num_seqs" values: [1, 2, 4, 8] })");
  EXPECT_THAT(PointsOf(study), ElementsAre(ElementsAre("4", "4"), ElementsAre("6", "2"),
                                           ElementsAre("2", "8"), ElementsAre("3", "2")));
}

// vllm.textproto has the seed 3.
TEST_F(StudyTest, SaysThatASeedOfABaseHasNoEffect) {
  const std::string base = "base: \"vllm.textproto\" replications: 2 ";
  EXPECT_EQ(Make(base).SeedNote(), "");
  EXPECT_EQ(Make(base + "seed: 3").SeedNote(), "");
  EXPECT_EQ(Make(base + "seed: 7").SeedNote(),
            "the seed 3 of vllm.textproto has no effect: all points have the study's seeds, from 7 "
            "on");
}

TEST_F(StudyTest, MistakesAreFoundBeforeAnythingRuns) {
  const std::string base = "base: \"vllm.textproto\"\n";
  EXPECT_THAT(ErrorOf(""), HasSubstr("base: is missing"));
  EXPECT_THAT(ErrorOf(base + R"(axis { path: "workload.requsts" values: [1] })"),
              HasSubstr("nearest \"requests\""));
  EXPECT_THAT(ErrorOf(base + R"(axis { path: "workload.requests" values: [1, many] })"),
              HasSubstr("axis[0]: --set workload.requests=many: "));
  EXPECT_THAT(ErrorOf(base + R"(axis { path: "seed" values: [1, 2] })"), HasSubstr("replications"));
  EXPECT_THAT(
      ErrorOf(base + "seed: 18446744073709551614 replications: 4"),
      HasSubstr("seed: 18446744073709551614 is too large for 4 seeds in a row; allowed: 0 to "
                "18446744073709551612"));
  EXPECT_THAT(ErrorOf(base + R"(axis { path: "workload.requests" from: 1 to: 2 })"),
              HasSubstr("steps: is missing"));
  EXPECT_THAT(
      ErrorOf(base + R"(axis { path: "workload.requests" from: 0 to: 2 steps: 3 log: true })"),
      HasSubstr("log: needs from and to above 0"));
  EXPECT_THAT(ErrorOf(base + R"(axis { path: "workload.requests" values: [1] steps: 3 })"),
              HasSubstr("several kinds of"));
  EXPECT_THAT(ErrorOf(base + R"(axis { path: "workload.requests" values: [1]
                                       coupled { path: "slo.ttft_s" values: [1, 2] } })"),
              HasSubstr("equal numbers"));
  EXPECT_THAT(ErrorOf(base + R"(axis { path: "slo.ttft_s" values: [1] }
                                axis { path: "slo.ttft_s" values: [2] })"),
              HasSubstr("on two axes"));
  EXPECT_THAT(ErrorOf(base + "runs: 1"), HasSubstr("runs: has point 1; allowed: 0 to 0"));
  EXPECT_THAT(ErrorOf(base + "warmup { kind: mser5 }"), HasSubstr("needs 5 or more"));
}

// Numbers without quotes get them before the text is parsed.
TEST_F(StudyTest, ErrorsNameTheColumnOfTheUsersText) {
  EXPECT_THAT(ErrorOf("base: \"vllm.textproto\"\naxis { values: [1, -2, on] pat: 3 }"),
              HasSubstr("study.textproto:2:28: no field \"pat\" in Axis"));
}

TEST_F(StudyTest, TheHashFollowsWhatTheResultsDependOn) {
  const std::string text = "base: \"vllm.textproto\" axis { path: \"slo.ttft_s\" values: [1] }";
  const std::string hash = Make(text).hash();
  EXPECT_EQ(Make(text + " runs: 0").hash(), hash);
  EXPECT_NE(Make(text + " replications: 2").hash(), hash);
  EXPECT_NE(Make(text, {"workload.requests=7"}).hash(), hash);
  Write("vllm.textproto", "# a comment\n" + ReadText(scratch_.File("vllm.textproto")));
  EXPECT_EQ(Make(text).hash(), hash);
  Write("vllm.textproto", "slo { tpot_s: 1 }\n" + ReadText(scratch_.File("vllm.textproto")));
  EXPECT_NE(Make(text).hash(), hash);
}

// Lengths that a workload draws from, in a file of their own.
constexpr const char* kLengths = "probability,tokens\n1,16\n";

TEST_F(StudyTest, TheHashCoversFilesThatValuesOfAnAxisName) {
  Write("lengths.csv", kLengths);
  const std::string text = R"(base: "vllm.textproto"
    axis { path: "workload.shape.prompt" values: ["{ kind: empirical path: 'lengths.csv' }"] })";
  const std::string hash = Make(text).hash();
  EXPECT_EQ(Make(text).hash(), hash);
  Write("lengths.csv", "probability,tokens\n1,17\n");
  EXPECT_NE(Make(text).hash(), hash);
  std::filesystem::remove(scratch_.File("lengths.csv"));
  EXPECT_THAT(ErrorOf(text), AllOf(HasSubstr("lengths.csv"), HasSubstr("cannot be read")));
}

TEST_F(StudyTest, TheHashCoversTheFolderOfAProfile) {
  std::filesystem::create_directories(scratch_.File("profile"));
  const std::string name(FileName(ProfilePart::kGemm));
  Write("profile/" + name, "# one\n");
  const std::string text = "base: \"vllm.textproto\" set: \"cost=profile { profile: '" +
                           scratch_.File("profile") + "' }\"";
  const std::string hash = Make(text).hash();
  Write("profile/" + name, "# two\n");
  EXPECT_NE(Make(text).hash(), hash);
}

// Of files above 64 MiB, provenance.json hashes the ends alone.
TEST_F(StudyTest, TheHashCoversTheMiddleOfALargeFile) {
  const std::string text = R"(base: "vllm.textproto"
    axis { path: "workload.trace.path" files: ["trace.csv"] })";
  const auto write = [this](char middle) {
    std::string content(std::size_t{66} << 20, 'x');
    content[std::size_t{33} << 20] = middle;
    Write("trace.csv", content);
  };
  write('a');
  const std::string hash = Make(text).hash();
  write('b');
  EXPECT_NE(Make(text).hash(), hash);
}

TEST_F(StudyTest, AFileThatCannotBeReadRefusesTheStudy) {
  EXPECT_THAT(ErrorOf(R"(base: "vllm.textproto" set: "workload.trace.path=missing.csv")"),
              AllOf(HasSubstr("workload.trace.path"), HasSubstr("cannot be read")));
  // A file that an axis replaces is not needed.
  Write("trace.csv", "x");
  EXPECT_EQ(ErrorOf(R"(base: "vllm.textproto" set: "workload.trace.path=missing.csv"
    axis { path: "workload.trace.path" files: ["trace.csv"] })"),
            "");
}

constexpr const char* kRates = R"(base: ["vllm.textproto", "orca.textproto"]
  axis { path: "workload.arrivals.rate" values: [10, 30] } replications: 3)";

TEST_F(StudyTest, ARowIsWhatARunOfItsExperimentGives) {
  const Study study = Make(kRates);
  const std::vector<StudyRow> rows = RunAll(study);
  ASSERT_EQ(rows.size(), 12u);
  ExperimentConfig config = study.ConfigOf(3);
  config.seed = 5;  // of replication 2
  RunControl control;
  const Summary expected = Simulate(Resolve(config), control).summary;
  const Summary& got = rows[11].summary;
  EXPECT_EQ(rows[11].seed, 5u);
  EXPECT_EQ(*got.Find("digest"), *expected.Find("digest"));
  EXPECT_EQ(*got.Find("p99_ttft_ms"), *expected.Find("p99_ttft_ms"));
  EXPECT_EQ(got.Find("cpu_seconds"), nullptr);  // of the process, not of the run
}

TEST_F(StudyTest, RowsDoNotDependOnTheNumberOfThreads) {
  const Study study = Make(kRates);
  const std::vector<StudyRow> one = RunAll(study, 1);
  const std::vector<StudyRow> four = RunAll(study, 4);
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].id, four[i].id);
    EXPECT_EQ(one[i].summary.entries().size(), four[i].summary.entries().size());
    EXPECT_EQ(*one[i].summary.Find("digest"), *four[i].summary.Find("digest"));
  }
}

TEST_F(StudyTest, APointThatFailsIsARowWithItsError) {
  const std::vector<StudyRow> rows = RunAll(Make(R"(base: "vllm.textproto"
    axis { path: "policy.vllm_v1.max_num_seqs" values: [0, 4] })"));
  EXPECT_THAT(rows[0].error, HasSubstr("max_num_seqs"));
  EXPECT_TRUE(rows[0].summary.entries().empty());
  EXPECT_EQ(rows[1].error, "");
}

TEST_F(StudyTest, WarmUpIsFoundOverReplicationsAndLeftOut) {
  const std::vector<StudyRow> rows = RunAll(Make(R"(base: "vllm.textproto"
    set: "workload.requests=400"
    replications: 5 warmup { kind: mser5 })"));
  const auto left_out = static_cast<std::int64_t>(rows[0].summary.Number("warmup_requests"));
  EXPECT_EQ(left_out % 5, 0);
  EXPECT_EQ(std::get<std::string>(*rows[0].summary.Find("warmup_rule")), "mser5");
  for (const StudyRow& row : rows) {
    EXPECT_EQ(row.summary.Number("requests"), 400.0 - static_cast<double>(left_out));
  }
}

// Latencies of requests that never wait are steady from the first one on: MSER-5 leaves out
// nothing, and head_share of the experiment must not do so either.
TEST_F(StudyTest, AWarmUpOfZeroCutsNothing) {
  Write("steady.textproto", R"(base: "vllm.textproto"
    workload {
      requests: 100
      arrivals { kind: constant rate: 0.1 }
      shape { prompt { kind: fixed value: 16 } output { kind: fixed value: 4 } }
    }
    metrics { head_share: 0.2 })");
  const std::vector<StudyRow> rows =
      RunAll(Make(R"(base: "steady.textproto" replications: 5 warmup { kind: mser5 })"));
  ASSERT_EQ(rows.size(), 5u);
  for (const StudyRow& row : rows) {
    EXPECT_EQ(row.error, "");
    EXPECT_EQ(row.summary.Number("warmup_requests"), 0);
    EXPECT_EQ(row.summary.Number("requests"), 100);
  }
}

TEST_F(StudyTest, RunsThatAreTooShortForTheRuleAreNotCut) {
  const std::vector<StudyRow> rows = RunAll(Make(R"(base: "vllm.textproto"
    set: "metrics.head_share=0.5" replications: 5 warmup { kind: mser5 })"));
  for (const StudyRow& row : rows) {
    EXPECT_EQ(std::get<std::string>(*row.summary.Find("warmup_rule")), "mser5_too_short");
    EXPECT_EQ(row.summary.Number("warmup_requests"), 0);
    EXPECT_EQ(row.summary.Number("requests"), 40);
  }
}

// A batch of slow requests at the start, and seeds that have different numbers of requests: each
// leaves out the same number, and none is cut to the shortest.
TEST_F(StudyTest, AWarmUpShortensNoRunOfADuration) {
  const std::string duration = R"(base: "vllm.textproto"
    set: "workload.requests=0" set: "workload.duration_s=20" replications: 5 )";
  const std::vector<StudyRow> whole = RunAll(Make(duration));
  const std::vector<StudyRow> cut = RunAll(Make(duration + "warmup { kind: mser5 }"));
  ASSERT_EQ(cut.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    ASSERT_EQ(cut[i].error, "");
    EXPECT_EQ(cut[i].summary.Number("requests") + cut[i].summary.Number("warmup_requests"),
              whole[i].summary.Number("requests"));
  }
}

// A server that takes 4 at a time fills later than one that takes 16.
TEST_F(StudyTest, ComparedPointsLeaveOutTheSameWarmUp) {
  const std::string axis = R"(axis { path: "workload.arrivals.rate" values: [10, 15] }
    set: "workload.requests=400" replications: 5 warmup { kind: mser5 })";
  const auto warmup_of = [](const StudyRow& row) { return row.summary.Number("warmup_requests"); };
  const std::vector<StudyRow> both =
      RunAll(Make("base: [\"vllm.textproto\", \"orca.textproto\"] " + axis));
  const std::vector<StudyRow> vllm = RunAll(Make("base: \"vllm.textproto\" " + axis));
  const std::vector<StudyRow> orca = RunAll(Make("base: \"orca.textproto\" " + axis));
  ASSERT_EQ(both.size(), 20u);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(warmup_of(both[i]), warmup_of(both[10 + i]));
    EXPECT_EQ(*both[i].summary.Find("warmup_rule"), *both[10 + i].summary.Find("warmup_rule"));
    const auto rule = [](const StudyRow& row) {
      return std::get<std::string>(*row.summary.Find("warmup_rule"));
    };
    if (rule(vllm[i]) == "mser5" && rule(orca[i]) == "mser5") {
      EXPECT_EQ(warmup_of(both[i]), std::max(warmup_of(vllm[i]), warmup_of(orca[i])));
    } else {
      EXPECT_EQ(rule(both[i]), "mser5_too_short");
      EXPECT_EQ(warmup_of(both[i]), 0);
    }
  }
}

class StopAtOnce final : public RunControl {
 public:
  [[nodiscard]] bool StopRequested() const override { return true; }
};

TEST_F(StudyTest, ARequestToStopEndsItWithoutTheRunningRows) {
  const Study study = Make(R"(base: "vllm.textproto" set: "workload.requests=100000000"
    replications: 4)");
  StopAtOnce control;
  const std::vector<std::size_t> rows = {0, 1, 2, 3};
  int made = 0;
  RunStudy(study, rows, {.jobs = 2, .runs_folder = {}, .command_line = {}}, control,
           [&](const StudyRow&) { ++made; });
  EXPECT_EQ(made, 0);
}

TEST_F(StudyTest, AnExceptionOfTheReceiverEndsIt) {
  const Study study = Make(kRates);
  RunControl control;
  const std::vector<std::size_t> rows = {0, 1, 2, 3, 4, 5};
  EXPECT_THROW(RunStudy(study, rows, {.jobs = 2, .runs_folder = {}, .command_line = {}}, control,
                        [](const StudyRow&) { throw std::runtime_error("disk full"); }),
               std::runtime_error);
}

}  // namespace
}  // namespace twin::run
