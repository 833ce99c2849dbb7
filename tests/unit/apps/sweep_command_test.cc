// twinserve sweep: files, resumption, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/files/csv.h"
#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using testing::CommandOutcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kStudy = R"(base: "small.textproto"
axis { path: "workload.arrivals.rate" values: [10, 20, 40] }
axis { path: "policy.vllm_v1.max_num_seqs" values: [4, 16] }
replications: 2
)";

using Rows = std::vector<std::vector<std::string>>;

class SweepCommandTest : public testing::ExperimentFolderTest {
 protected:
  SweepCommandTest() { Write("study.textproto", kStudy); }

  [[nodiscard]] std::string Text(const std::string& name) const {
    return ReadText(scratch_.File(name));
  }

  // The cells of a CSV file, the header first.
  [[nodiscard]] Rows Table(const std::string& name) const {
    CsvTable table(scratch_.File(name));
    Rows rows = {table.columns()};
    while (table.Next()) rows.emplace_back(table.cells().begin(), table.cells().end());
    return rows;
  }

  [[nodiscard]] std::size_t RowsOf(const std::string& name) const {
    const std::string text = Text(name);
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }

  [[nodiscard]] CommandOutcome Sweep(const std::string& out,
                                     const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"sweep", "study.textproto", "--out", out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }
};

TEST_F(SweepCommandTest, WritesARowPerRunAndOnePerPoint) {
  const CommandOutcome outcome = Sweep("out");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("wrote out: 6 points, 12 runs\n"));
  EXPECT_THAT(Files("out"), ElementsAre("results.csv", "study.json", "summary.csv", "timing.csv"));
  const Rows results = Table("out/results.csv");
  ASSERT_EQ(results.size(), 13u);
  const std::vector<std::string>& header = results[0];
  EXPECT_THAT(std::vector<std::string>(header.begin(), header.begin() + 5),
              ElementsAre("point", "workload.arrivals.rate", "policy.vllm_v1.max_num_seqs",
                          "replication", "seed"));
  EXPECT_EQ(header.back(), "error");
  const nlohmann::json summary = RunSmall("run");
  for (const auto& [name, value] : summary.items()) {
    if (name == "cpu_seconds" || name == "peak_rss_mib" || name == "interrupted") continue;
    EXPECT_EQ(std::count(header.begin(), header.end(), name), 1) << name;
  }
  // Point 3: rate 20 and 16 sequences, which is the experiment itself.
  EXPECT_THAT(std::vector<std::string>(results[7].begin(), results[7].begin() + 5),
              ElementsAre("3", "20", "16", "0", "3"));
  const auto digest = std::find(header.begin(), header.end(), "digest") - header.begin();
  EXPECT_EQ(results[7][static_cast<std::size_t>(digest)], summary["digest"]);
  const Rows points = Table("out/summary.csv");
  EXPECT_EQ(points.size(), 7u);
  EXPECT_THAT(Text("out/summary.csv"),
              HasSubstr(",mean_ttft_ms,mean_ttft_ms_low,mean_ttft_ms_high,"));
}

TEST_F(SweepCommandTest, SaysOnceWhatTheServerDoesAndTheSimulationDoesNot) {
  Write("shared.textproto", R"(
workload {
  requests: 20
  arrivals { kind: poisson rate: 1 }
  shape {
    prompt { kind: fixed value: 200 }
    output { kind: fixed value: 5 }
    shared_prefix { prompts: 1 tokens: 4000 }
  }
}
system { model: "llama-3-8b" hardware: "h100-sxm" server: "trtllm-1.0.0" }
)");
  Write("study.textproto",
        "base: \"shared.textproto\"\naxis { path: \"workload.arrivals.rate\" values: [1, 2] }\n");
  const CommandOutcome outcome = Sweep("s");
  EXPECT_EQ(outcome.exit_code, 0);
  const std::string line = "90 % of the prompt tokens repeat earlier prompts";
  const std::size_t first = outcome.err.find(line);
  ASSERT_NE(first, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find(line, first + 1), std::string::npos) << outcome.err;
}

TEST_F(SweepCommandTest, ResultsDoNotDependOnTheNumberOfThreads) {
  EXPECT_EQ(Sweep("one", {"--jobs", "1"}).exit_code, 0);
  EXPECT_EQ(Sweep("three", {"--jobs", "3"}).exit_code, 0);
  EXPECT_EQ(Text("one/results.csv"), Text("three/results.csv"));
  EXPECT_EQ(Text("one/summary.csv"), Text("three/summary.csv"));
}

TEST_F(SweepCommandTest, PrintsItsPoints) {
  const CommandOutcome table = Sweep("out", {"--metrics", "mean_ttft_ms,mean_tbt_ms"});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, ::testing::ContainsRegex(
                             "^rate +max_num_seqs +saturated +n +mean_ttft_ms +mean_itl_ms\n"
                             "10 +4 +[a-z]+ +2 "));
  // Two runs are too few for an interval of the mean TTFT, and a line says so.
  EXPECT_EQ(std::count(table.out.begin(), table.out.end(), '\n'), 1 + 6 + 1);
  EXPECT_THAT(table.out, ::testing::ContainsRegex("\\(20 runs\\) +[0-9.]+ "));
  EXPECT_THAT(table.out, HasSubstr("(20 runs): replications that an interval of the metric wants"));
  // The folder is complete: the same command prints it again.
  EXPECT_THAT(Sweep("out", {"--format", "latex"}).out,
              HasSubstr("\\toprule\nrate & max\\_num\\_seqs & saturated & n & "));
  const nlohmann::json json = nlohmann::json::parse(Sweep("out", {"--format", "json"}).out);
  ASSERT_EQ(json["points"].size(), 6u);
  EXPECT_EQ(json["points"][5]["settings"]["workload.arrivals.rate"], 40);
  EXPECT_EQ(json["points"][5]["settings"]["policy.vllm_v1.max_num_seqs"], 16);
  const nlohmann::json& metric = json["points"][5]["metrics"]["mean_itl_ms"];
  EXPECT_LE(metric["low"], metric["mean"]);
  EXPECT_LE(metric["mean"], metric["high"]);
  const nlohmann::json& waiting = json["points"][5]["metrics"]["mean_ttft_ms"];
  EXPECT_TRUE(waiting["high"].is_null());
  EXPECT_GE(waiting["runs_wanted"], 10);
}

TEST_F(SweepCommandTest, RefusesAMetricThatNoRunHasBeforeItRuns) {
  const CommandOutcome outcome = Sweep("out", {"--metrics", "mean_tft_ms"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("nearest: mean_ttft_ms"));
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "out"));
}

TEST_F(SweepCommandTest, PrintsThePointsWithoutRunningThem) {
  const CommandOutcome outcome = Run({"sweep", "study.textproto", "--dry-run"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              StartsWith("point,workload.arrivals.rate,policy.vllm_v1.max_num_seqs\n0,10,4\n"));
  EXPECT_EQ(outcome.err, "6 points, 2 runs each: 12 runs\n");
}

TEST_F(SweepCommandTest, ContinuesWhereItWasKilled) {
  EXPECT_EQ(Sweep("whole").exit_code, 0);
  // So long that it is killed in the middle.
  const std::vector<std::string> longer = {"--set", "workload.requests=5000", "--jobs", "1"};
  EXPECT_EQ(Sweep("expected", longer).exit_code, 0);
  std::vector<std::string> arguments = {"sweep", "study.textproto", "--out", "killed"};
  arguments.insert(arguments.end(), longer.begin(), longer.end());
  {
    testing::Command command(scratch_.path(), arguments);
    for (int i = 0; i < 6000; ++i) {
      if (std::filesystem::exists(scratch_.File("killed/results.csv")) &&
          RowsOf("killed/results.csv") >= 3) {
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    command.Signal(SIGKILL);
    EXPECT_EQ(command.Wait().exit_code, -1);
  }
  const std::size_t kept = RowsOf("killed/results.csv") - 1;
  EXPECT_GE(kept, 2u);
  // A row that was being written.
  std::ofstream(scratch_.File("killed/results.csv"), std::ios::app) << "11,40,16,1,4,0.5";
  const CommandOutcome outcome = Run(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(std::to_string(kept) + " of 12 runs are there from before"));
  EXPECT_EQ(Text("killed/results.csv"), Text("expected/results.csv"));
  EXPECT_EQ(Text("killed/summary.csv"), Text("expected/summary.csv"));
}

TEST_F(SweepCommandTest, KeepsWhatIsDoneOnCtrlC) {
  testing::Command command(scratch_.path(), {"sweep", "study.textproto", "--out", "out", "--jobs",
                                             "1", "--set", "workload.requests=20000"});
  for (int i = 0; i < 6000; ++i) {
    if (std::filesystem::exists(scratch_.File("out/results.csv")) &&
        RowsOf("out/results.csv") >= 2) {
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  command.Signal(SIGINT);
  const CommandOutcome outcome = command.Wait();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("interrupted: the same command continues\n"));
  EXPECT_GE(RowsOf("out/results.csv"), 2u);
  EXPECT_LT(RowsOf("out/results.csv"), 13u);
}

TEST_F(SweepCommandTest, RefusesAFolderThatIsNotThisStudys) {
  EXPECT_EQ(Sweep("out").exit_code, 0);
  const CommandOutcome other = Sweep("out", {"--set", "workload.requests=3"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_TRUE(other.wrote_one_line()) << other.err;
  EXPECT_THAT(other.err, HasSubstr("holds another study"));
  EXPECT_THAT(other.err, HasSubstr(", which differs in set; allowed: more values"));
  (void)RunSmall("run");
  EXPECT_THAT(Sweep("run").err, HasSubstr("is not a study's folder"));
}

// Values in front, in the middle and of another axis move all points.
TEST_F(SweepCommandTest, AStudyGrowsInItsFolder) {
  EXPECT_EQ(Sweep("small").exit_code, 0);
  std::string grown = kStudy;
  const auto replace = [&](const std::string& from, const std::string& to) {
    grown.replace(grown.find(from), from.size(), to);
  };
  replace("[10, 20, 40]", "[5, 10, 15, 20, 40]");
  replace("[4, 16]", "[4, 8, 16]");
  replace("replications: 2", "replications: 3");
  Write("study.textproto", grown);
  const CommandOutcome continued = Sweep("small");
  EXPECT_EQ(continued.exit_code, 0) << continued.err;
  EXPECT_THAT(continued.err, HasSubstr("12 of 45 runs are there from before"));
  EXPECT_EQ(Sweep("whole").exit_code, 0);
  for (const char* const file : {"results.csv", "summary.csv", "study.json"}) {
    EXPECT_EQ(Text("small/" + std::string(file)), Text("whole/" + std::string(file))) << file;
  }
}

// Runs that are there would be lost.
TEST_F(SweepCommandTest, AStudyDoesNotShrinkInItsFolder) {
  EXPECT_EQ(Sweep("out").exit_code, 0);
  const std::string before = Text("out/results.csv") + Text("out/study.json");
  for (const auto& [from, to] : {std::pair("replications: 2", "replications: 1"),
                                 std::pair("[10, 20, 40]", "[10, 40, 80]")}) {
    std::string other = kStudy;
    other.replace(other.find(from), std::string(from).size(), to);
    Write("study.textproto", other);
    const CommandOutcome refused = Sweep("out");
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, HasSubstr(" runs of values or replications that this study lacks; "
                                       "allowed: a study with all of them, or another --out"));
    EXPECT_EQ(Text("out/results.csv") + Text("out/study.json"), before);
  }
}

TEST_F(SweepCommandTest, RunDirectoriesKeepTheirPoints) {
  Write("study.textproto", std::string(kStudy) + "runs: [0]\n");
  EXPECT_EQ(Sweep("out").exit_code, 0);
  std::string grown = std::string(kStudy) + "runs: [0]\n";
  grown.replace(grown.find("[10, 20"), 7, "[5, 10, 20");
  Write("study.textproto", grown);
  EXPECT_THAT(Sweep("out").err, HasSubstr("keeps run directories, whose points would get other "
                                          "numbers; allowed: more replications"));
}

// As if another build had begun the folder.
TEST_F(SweepCommandTest, RefusesToMixRowsOfTwoBuildsUnlessAskedTo) {
  EXPECT_EQ(Sweep("out").exit_code, 0);
  nlohmann::json study = nlohmann::json::parse(Text("out/study.json"));
  const std::string commit = study["commit"];
  EXPECT_TRUE(study["dirty"].is_boolean());
  EXPECT_TRUE(study["earlier_builds"].empty());
  study["commit"] = "0123456789ab";
  Write("out/study.json", study.dump());
  const CommandOutcome refused = Sweep("out");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(refused.wrote_one_line()) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("0123456789ab"));
  EXPECT_THAT(refused.err, HasSubstr("--accept-other-build"));
  EXPECT_EQ(Sweep("out", {"--accept-other-build"}).exit_code, 0);
  study = nlohmann::json::parse(Text("out/study.json"));
  EXPECT_EQ(study["commit"], commit);
  ASSERT_EQ(study["earlier_builds"].size(), 1u);
  EXPECT_EQ(study["earlier_builds"][0]["commit"], "0123456789ab");
  EXPECT_EQ(Sweep("out").exit_code, 0);
}

TEST_F(SweepCommandTest, LeftoversOfAKilledProcessAreNoObstacle) {
  std::filesystem::create_directories(scratch_.File("out"));
  Write("out/study.json.partial.123", "{");
  EXPECT_EQ(Sweep("out").exit_code, 0);
  const std::string expected = Text("out/results.csv");
  Write("out/results.csv.partial.77", "point");
  Write("out/summary.csv.partial.notes", "mine");
  std::ofstream(scratch_.File("out/timing.csv"), std::ios::app) << "3,1,0.0";
  Write("out/results.csv", "");  // as after a crash of the machine
  EXPECT_EQ(Sweep("out").exit_code, 0);
  EXPECT_EQ(Text("out/results.csv"), expected);
  EXPECT_THAT(Files("out"), ElementsAre("results.csv", "study.json", "summary.csv",
                                        "summary.csv.partial.notes", "timing.csv"));
  const Rows timing = Table("out/timing.csv");
  EXPECT_EQ(timing.size(), 25u);
  for (const std::vector<std::string>& row : timing) EXPECT_EQ(row.size(), 3u);
}

TEST_F(SweepCommandTest, MakesRunDirectoriesThatAreAskedForLater) {
  EXPECT_EQ(Sweep("out").exit_code, 0);
  const std::string expected = Text("out/results.csv");
  Write("study.textproto", std::string(kStudy) + "runs: 2");
  const CommandOutcome later = Sweep("out");
  EXPECT_EQ(later.exit_code, 0) << later.err;
  EXPECT_THAT(later.err, HasSubstr("10 of 12 runs are there from before"));
  EXPECT_THAT(Files("out/runs"), ElementsAre("2_0", "2_1"));
  EXPECT_EQ(Text("out/results.csv"), expected);
}

// An answer of one token has no gap: only some of the runs of one request have a value.
TEST_F(SweepCommandTest, AnIntervalOfFewerValuesHasItsOwnN) {
  Write("short.textproto", R"(base: "small.textproto"
workload { requests: 1 shape { output { kind: uniform min: 1 max: 2 } } })");
  Write("study.textproto", "base: \"short.textproto\" replications: 12");
  EXPECT_EQ(Sweep("out").exit_code, 0);
  const Rows rows = Table("out/summary.csv");
  const auto own = std::find(rows[0].begin(), rows[0].end(), "mean_itl_ms_n");
  ASSERT_NE(own, rows[0].end());
  const int n = std::stoi(rows[1][static_cast<std::size_t>(own - rows[0].begin())]);
  EXPECT_GT(n, 0);
  EXPECT_LT(n, 12);
  EXPECT_EQ(std::count(rows[0].begin(), rows[0].end(), "mean_ttft_ms_n"), 0);
}

constexpr const char* kDerived = R"(
derived { name: "per_device" value: "output_throughput / devices" }
derived { name: "share" value: "request_throughput / workload.arrivals.rate" }
)";

TEST_F(SweepCommandTest, DerivedColumnsFollowTheOthers) {
  Write("study.textproto", std::string(kStudy) + kDerived);
  EXPECT_EQ(Sweep("out").exit_code, 0);
  const Rows rows = Table("out/results.csv");
  const auto column = [](const Rows& table, const std::string& name) {
    const auto found = std::find(table[0].begin(), table[0].end(), name);
    EXPECT_NE(found, table[0].end()) << name;
    return static_cast<std::size_t>(found - table[0].begin());
  };
  EXPECT_EQ(column(rows, "per_device") + 3, rows[0].size());
  for (std::size_t i = 1; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i][column(rows, "devices")], "1");
    EXPECT_EQ(rows[i][column(rows, "per_device")], rows[i][column(rows, "output_throughput")]);
    EXPECT_DOUBLE_EQ(std::stod(rows[i][column(rows, "share")]) *
                         std::stod(rows[i][column(rows, "workload.arrivals.rate")]),
                     std::stod(rows[i][column(rows, "request_throughput")]));
  }
  // The interval is that of the runs' values: mean and half-width of two values (Student's t, 1
  // degree of freedom: 12.706).
  const Rows points = Table("out/summary.csv");
  const double a = std::stod(rows[1][column(rows, "share")]);
  const double b = std::stod(rows[2][column(rows, "share")]);
  EXPECT_NEAR(std::stod(points[1][column(points, "share")]), (a + b) / 2, 1e-12);
  EXPECT_NEAR(std::stod(points[1][column(points, "share_high")]),
              (a + b) / 2 + 12.7062 * std::abs(a - b) / 2, 1e-4 * std::abs(a - b));
}

TEST_F(SweepCommandTest, OtherDerivedColumnsNeedNoNewRuns) {
  Write("study.textproto", std::string(kStudy) + kDerived);
  EXPECT_EQ(Sweep("expected").exit_code, 0);
  Write("study.textproto",
        std::string(kStudy) + "derived { name: \"per_device\" value: \"devices + 1\" }");
  EXPECT_EQ(Sweep("out").exit_code, 0);
  Write("study.textproto", std::string(kStudy) + kDerived);
  EXPECT_THAT(Sweep("out").err, HasSubstr("12 of 12 runs are there from before"));
  EXPECT_EQ(Text("out/results.csv"), Text("expected/results.csv"));
  EXPECT_EQ(Text("out/summary.csv"), Text("expected/summary.csv"));
  Write("study.textproto", kStudy);
  EXPECT_EQ(Sweep("out").exit_code, 0);
  EXPECT_EQ(Sweep("without").exit_code, 0);
  EXPECT_EQ(Text("out/results.csv"), Text("without/results.csv"));
}

TEST_F(SweepCommandTest, AFailingRowHasNoDerivedValues) {
  Write("study.textproto", R"(base: "small.textproto"
axis { path: "policy.vllm_v1.max_num_seqs" values: [-1, 8] }
derived { name: "two" value: "1 + 1" })");
  EXPECT_EQ(Sweep("out").exit_code, 1);
  const Rows rows = Table("out/results.csv");
  EXPECT_EQ(rows[1][rows[1].size() - 2], "");
  EXPECT_EQ(rows[2][rows[2].size() - 2], "2");
}

TEST_F(SweepCommandTest, AFailingPointIsARowAndIsMadeAgain) {
  Write("study.textproto", R"(base: "small.textproto"
axis { path: "policy.vllm_v1.max_num_seqs" values: [-1, 8] })");
  for (int i = 0; i < 2; ++i) {
    const CommandOutcome outcome = Sweep("out");
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("warning: point 0: "));
    EXPECT_THAT(outcome.err, HasSubstr("1 runs failed"));
    const Rows rows = Table("out/results.csv");
    ASSERT_EQ(rows.size(), 3u);
    EXPECT_THAT(rows[1].back(), HasSubstr("max_num_seqs"));
    EXPECT_EQ(rows[2].back(), "");
  }
}

TEST_F(SweepCommandTest, KeepsRunDirectoriesOfChosenPoints) {
  Write("study.textproto", std::string(kStudy) + "runs: 2");
  EXPECT_EQ(Sweep("out").exit_code, 0);
  EXPECT_THAT(Files("out/runs"), ElementsAre("2_0", "2_1"));
  EXPECT_EQ(SummaryOf("out/runs/2_1")["requests"], 200);
}

// The columns of a row are those of all rows, whichever ends first.
TEST_F(SweepCommandTest, RowsWithMoreMetricsAddColumns) {
  Write("study.textproto", R"(base: "small.textproto"
axis { path: "metrics.by_tenant" values: [false, true] })");
  EXPECT_EQ(Sweep("out", {"--jobs", "1"}).exit_code, 0);
  const Rows rows = Table("out/results.csv");
  ASSERT_EQ(rows.size(), 3u);
  const auto tenant = std::find(rows[0].begin(), rows[0].end(), "tenant_0_requests");
  ASSERT_NE(tenant, rows[0].end());
  const auto column = static_cast<std::size_t>(tenant - rows[0].begin());
  EXPECT_EQ(rows[1].size(), rows[0].size());
  EXPECT_EQ(rows[1][column], "");
  EXPECT_EQ(rows[2][column], "200");
}

// Latencies double where every step takes twice as long and nothing waits.
TEST_F(SweepCommandTest, ComparesExperimentsSeedBySeed) {
  const std::string lonely =
      "base: \"small.textproto\"\nworkload { arrivals { rate: 0.01 } "
      "requests: 20 }\n";
  Write("one.textproto", lonely + "cost { linear { base_s: 0.01 } }");
  Write("two.textproto", lonely + "cost { linear { base_s: 0.02 } }");
  Write("study.textproto", "base: [\"one.textproto\", \"two.textproto\"]\nreplications: 3");
  EXPECT_EQ(Sweep("out").exit_code, 0);
  const Rows rows = Table("out/differences.csv");
  ASSERT_GT(rows.size(), 2u);
  EXPECT_THAT(rows[0],
              ElementsAre("point", "baseline", "base", "metric", "role", "n", "difference",
                          "difference_low", "difference_high", "ratio", "ratio_low", "ratio_high",
                          "geometric_ratio", "geometric_ratio_low", "geometric_ratio_high",
                          "correlation", "p_value", "p_adjusted", "significant", "note"));
  bool found = false;
  for (const std::vector<std::string>& row : rows) {
    if (row[3] != "mean_tpot_ms") continue;
    found = true;
    EXPECT_THAT(std::vector<std::string>(row.begin(), row.begin() + 6),
                ElementsAre("1", "0", "two.textproto", "mean_tpot_ms", "primary", "3"));
    EXPECT_NEAR(std::stod(row[6]), 10, 0.5);  // 20 ms per token instead of 10 ms
    EXPECT_NEAR(std::stod(row[9]), 2, 0.05);
    EXPECT_EQ(row[18], "yes");
  }
  EXPECT_TRUE(found);
}

// The studies of experiments/, with few requests.
TEST_F(SweepCommandTest, TheExampleStudiesRun) {
  for (const char* folder : {"rate_sweep", "chunk_size"}) {
    const std::string study =
        std::string(TWIN_SOURCE_DIR) + "/experiments/" + folder + "/study.textproto";
    const CommandOutcome outcome =
        Run({"sweep", study, "--out", folder, "--set", "workload.requests=5"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_GT(RowsOf(std::string(folder) + "/summary.csv"), 10u);
  }
}

}  // namespace
}  // namespace twin::apps
