// twinserve compare and doctor: what they print, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "run/record/metric_catalog.h"
#include "tests/unit/apps/experiment_folder.h"
#include "tests/unit/apps/measured_files.h"

namespace twin::apps {
namespace {

using nlohmann::json;
using testing::CommandOutcome;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CompareCommandTest : public testing::ExperimentFolderTest {
 protected:
  void WriteRun(const std::string& name, const std::string& summary) {
    std::filesystem::create_directory(scratch_.path() / name);
    Write(name + "/summary.json", summary);
  }
};

TEST_F(CompareCommandTest, PutsRunsSideBySide) {
  WriteRun("a", R"({"steps": 12, "mean_ttft_ms": 1.5, "digest": "00ff"})");
  WriteRun("b", R"({"steps": 7, "mean_ttft_ms": null})");
  const CommandOutcome outcome = Run({"compare", "a", "b/"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err,
            "warning: the configurations are not compared: a/config.resolved.textproto does not "
            "exist\n");
  EXPECT_EQ(outcome.out,
            "metric        unit      a  b  change\n"
            "mean_ttft_ms  ms      1.5  -       -\n"
            "steps         steps    12  7  -41.7%\n"
            "digest               00ff  -       -\n");
}

TEST_F(CompareCommandTest, ShowsTheMetricsThatAreNamed) {
  WriteRun("a", R"({"steps": 12, "mean_ttft_ms": 1.5, "digest": "00ff"})");
  const CommandOutcome some = Run({"compare", "a", "--metrics", "digest,steps"});
  EXPECT_EQ(some.out, "metric  unit      a\ndigest         00ff\nsteps   steps    12\n");
  const CommandOutcome all = Run({"compare", "a", "--metrics", "all"});
  EXPECT_THAT(all.out, HasSubstr("mean_ttft_ms"));
  EXPECT_THAT(all.out, HasSubstr("digest"));
}

TEST_F(CompareCommandTest, WritesMarkdownAndLatex) {
  WriteRun("a_1", R"({"steps": 12345})");
  WriteRun("b", R"({"steps": 7000})");
  EXPECT_EQ(Run({"compare", "a_1", "b", "--format", "markdown"}).out,
            "| metric | unit | a_1 | b | change |\n"
            "| --- | --- | ---: | ---: | ---: |\n"
            "| steps | steps | 12345 | 7000 | -43.3% |\n");
  EXPECT_THAT(Run({"compare", "a_1", "b", "--format", "latex"}).out,
              HasSubstr("metric & unit & a\\_1 & b & change \\\\\n\\midrule\n"
                        "steps & steps & 12\\,345 & 7000 & $-$43.3\\% \\\\\n"));
}

// The time of the host hides behind the device with asynchronous scheduling alone.
TEST_F(CompareCommandTest, SaysThatHostsDiffer) {
  const auto run = [&](const std::string& out, const std::vector<std::string>& changes) {
    std::vector<std::string> words = {"run", "small.textproto", "--out", out};
    words.insert(words.end(), changes.begin(), changes.end());
    const CommandOutcome outcome = Run(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  };
  run("ahead", {"--set", "policy.vllm_v1.async_scheduling=true"});
  run("waits", {});
  EXPECT_THAT(Run({"compare", "ahead", "waits"}).err,
              HasSubstr("note: ahead plans each step while the one before it runs, waits waits for "
                        "its results: their difference includes the time of the host\n"));
  EXPECT_THAT(Run({"compare", "waits", "waits"}).err, Not(HasSubstr("time of the host")));
}

TEST_F(CompareCommandTest, RefusesAMetricThatNoRunHas) {
  WriteRun("a", R"({"steps": 12, "mean_ttft_ms": 1.5})");
  const CommandOutcome outcome = Run({"compare", "a", "--metrics", "steps,mean_tft_ms"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("mean_tft_ms"));
  EXPECT_THAT(outcome.err, HasSubstr("nearest: mean_ttft_ms"));
  EXPECT_THAT(outcome.out, IsEmpty());
}

TEST_F(CompareCommandTest, RefusesWhatIsNoRun) {
  WriteRun("damaged", R"({"steps": 1)");
  std::filesystem::create_directory(scratch_.path() / "empty");
  for (const char* run : {"nope", "empty", "damaged"}) {
    const CommandOutcome outcome = Run({"compare", run});
    EXPECT_EQ(outcome.exit_code, std::string(run) == "damaged" ? 1 : 2);
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(run));
  }
}

TEST_F(CompareCommandTest, ReadsWhatRunWrote) {
  const json summary = RunSmall("run");
  const CommandOutcome outcome = Run({"compare", "run", "--metrics", "digest"});
  EXPECT_THAT(outcome.out, HasSubstr(summary["digest"].get<std::string>()));
}

// The headline is picked by name: each name must be one that a run's summary has.
TEST_F(CompareCommandTest, ShowsEveryHeadlineMetricOfARealRun) {
  const json summary = RunSmall("run", {"--set", "slo.ttft_s=1"});
  const std::string table = Run({"compare", "run"}).out;
  std::istringstream lines(table);
  std::set<std::string> shown;
  for (std::string line; std::getline(lines, line);) shown.insert(line.substr(0, line.find(' ')));
  EXPECT_EQ(shown.erase("metric"), 1u);
  for (const std::string& name : shown) EXPECT_TRUE(summary.contains(name)) << name;
  EXPECT_THAT(shown, ::testing::IsSupersetOf({"completed", "p99_ttft_ms", "request_goodput",
                                              "max_kv_used_share", "steps"}));
  // As many rows as the headline has names: compare leaves out what a run does not have.
  EXPECT_EQ(shown.size(), HeadlineMetrics().size()) << table;
}

TEST_F(CompareCommandTest, NamesTheFieldsInWhichConfigurationsDiffer) {
  (void)RunSmall("a");
  (void)RunSmall("b", {"--set", "policy.vllm_v1.max_num_seqs=8"});
  const std::string table = Run({"compare", "a", "b"}).out;
  EXPECT_THAT(table, HasSubstr("policy.vllm_v1.max_num_seqs  16  8\n"));
  EXPECT_THAT(table, HasSubstr("prefix_hit_share"));
  EXPECT_THAT(Run({"compare", "a", "a"}).out, Not(HasSubstr("config")));
}

TEST_F(CompareCommandTest, NamesAFewFieldsInWhichSeveralConfigurationsDiffer) {
  (void)RunSmall("a");
  (void)RunSmall("b", {"--set", "seed=2"});
  (void)RunSmall("c", {"--set", "seed=3"});
  EXPECT_THAT(Run({"compare", "a", "b", "c"}).out, HasSubstr("configurations differ in seed; "));
}

TEST_F(CompareCommandTest, WritesJsonAndCsv) {
  const json summary = RunSmall("a");
  const json other = RunSmall("b", {"--set", "policy.vllm_v1.max_num_seqs=8"});
  const json got = json::parse(
      Run({"compare", "a", "b", "--metrics", "mean_ttft_ms,digest", "--format", "json"}).out);
  const double first = summary["mean_ttft_ms"].get<double>();
  const double second = other["mean_ttft_ms"].get<double>();
  EXPECT_EQ(got["runs"][1]["name"], "b");
  EXPECT_EQ(got["metrics"][0]["name"], "mean_ttft_ms");
  EXPECT_EQ(got["metrics"][0]["unit"], "ms");
  EXPECT_EQ(got["metrics"][0]["values"][0], first);
  EXPECT_TRUE(got["metrics"][0]["change_percent"][0].is_null());
  EXPECT_NEAR(got["metrics"][0]["change_percent"][1].get<double>(), 100 * (second / first - 1),
              1e-9);
  EXPECT_EQ(got["metrics"][1]["values"][1], other["digest"]);
  EXPECT_EQ(got["config"][0]["field"], "policy.vllm_v1.max_num_seqs");
  EXPECT_EQ(got["config"][0]["values"], (json{"16", "8"}));
  const std::string csv = Run({"compare", "a", "b", "--metrics", "steps", "--format=csv"}).out;
  EXPECT_EQ(csv.substr(0, csv.find('\n')), "metric,unit,a,b,b_change_percent");
  EXPECT_THAT(csv, HasSubstr("\nsteps,steps," + summary["steps"].dump() + ","));
  EXPECT_THAT(csv, HasSubstr("\nconfig.policy.vllm_v1.max_num_seqs,,16,8,\n"));
}

TEST_F(CompareCommandTest, SingleRunsAreSaidToHoldChance) {
  (void)RunSmall("a");
  (void)RunSmall("b", {"--set", "policy.vllm_v1.max_num_seqs=8"});
  (void)RunSmall("c", {"--set", "seed=4"});
  const std::string rest =
      ": differences include the luck of their arrivals; `compare --draws 20` or a study "
      "(docs/studies.md) tells them apart\n";
  EXPECT_EQ(Run({"compare", "a", "b"}).err, "note: one run each" + rest);
  const CommandOutcome seeds = Run({"compare", "a", "c", "--format", "json"});
  EXPECT_EQ(seeds.err, "note: one run each, with different seeds" + rest);
  EXPECT_TRUE(json::accept(seeds.out));
  EXPECT_EQ(Run({"compare", "a", "a"}).err, "");  // nothing differs
}

// Half as many sequences wait longer under any arrivals: the seed of the second run does not count.
TEST_F(CompareCommandTest, DrawsHaveTheSeedsOfTheFirstRun) {
  (void)RunSmall("a");
  (void)RunSmall("b", {"--set", "policy.vllm_v1.max_num_seqs=2"});
  (void)RunSmall("c", {"--set", "policy.vllm_v1.max_num_seqs=2", "--set", "seed=4"});
  const auto draws_of = [this](const char* second, std::string& err) {
    const CommandOutcome outcome =
        Run({"compare", "a", second, "--draws", "19", "--format", "json"});
    err = outcome.err;
    return json::parse(outcome.out)["uncertainty"];
  };
  std::string err;
  const json equal = draws_of("b", err);
  EXPECT_THAT(err, Not(HasSubstr("note")));
  EXPECT_EQ(draws_of("c", err), equal);
  EXPECT_THAT(err, HasSubstr("note: the draws of both take the seeds from 3 on, those of a\n"));
  EXPECT_EQ(equal["first_seed"], 3);
  const json& ttft = equal["metrics"][0];
  EXPECT_EQ(ttft["name"], "mean_ttft_ms");
  EXPECT_EQ(ttft["second_is_better"], 0);
  EXPECT_NEAR(ttft["second_is_better_high"].get<double>(), 1 - std::pow(0.025, 1.0 / 19), 1e-9);
  EXPECT_THAT(
      Run({"compare", "a", "b", "--draws", "19"}).out,
      HasSubstr("mean_ttft_ms: a is better in 100 % of the draws: P(better) 0.82 to 1.00\n"));
}

// The smallest and the largest of 19 draws are the first that hold one more with 90 %.
TEST_F(CompareCommandTest, FewerDrawsThan19AreRefused) {
  (void)RunSmall("a");
  const CommandOutcome outcome = Run({"compare", "a", "--draws", "18"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, ContainsRegex("--draws.*18.*19"));
}

// Mean TTFT (20 + 30 + 20) / 3 ms; 3 requests with 15 output tokens until the last token at 260 ms;
// 1 of 4 requests failed.
TEST_F(CompareCommandTest, PutsMeasuredRunsBesideRunDirectories) {
  WriteRun("a", R"({"completed": 6, "mean_ttft_ms": 46.66666666666667, "steps": 12})");
  Write("a/config.resolved.textproto", "schema_version: 1\n");
  Write("vllm.json", testing::MeasuredVllm());
  Write("aiperf.jsonl", testing::MeasuredAiPerf());
  Write("log.csv", testing::kMeasuredLog);
  for (const char* file : {"vllm.json", "aiperf.jsonl", "log.csv"}) {
    const CommandOutcome outcome =
        Run({"compare", file, "a", "--metrics",
             "completed,unanswered_share,mean_ttft_ms,mean_tpot_ms,mean_e2el_ms,"
             "request_throughput,output_throughput,steps",
             "--format", "markdown"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(outcome.out, std::string("| metric | unit | ") + file +
                               " | a | change |\n"
                               "| --- | --- | ---: | ---: | ---: |\n"
                               "| completed | requests | 3 | 6 | +100.0% |\n"
                               "| unanswered_share | share | 0.25 | - | - |\n"
                               "| mean_ttft_ms | ms | 23.33 | 46.67 | +100.0% |\n"
                               "| mean_tpot_ms | ms | 10 | - | - |\n"
                               "| mean_e2el_ms | ms | 63.33 | - | - |\n"
                               "| request_throughput | requests/s | 11.54 | - | - |\n"
                               "| output_throughput | tokens/s | 57.69 | - | - |\n"
                               "| steps | steps | - | 12 | - |\n");
  }
}

TEST_F(CompareCommandTest, EachResultOfAMeasuredFileIsAColumn) {
  Write("two.jsonl", testing::MeasuredSglang() + testing::MeasuredSglang());
  const CommandOutcome outcome =
      Run({"compare", "two.jsonl", "--metrics", "mean_itl_ms,p99_ttft_ms"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  // p99 of 20, 20, 30 ms: 0.98 of the way from the second to the third.
  EXPECT_EQ(outcome.out,
            "metric       unit  two.jsonl #1  two.jsonl #2  change\n"
            "mean_itl_ms  ms              10            10   +0.0%\n"
            "p99_ttft_ms  ms            29.8          29.8   +0.0%\n");
}

// Answers of 100 tokens in one piece: no time lies between their tokens.
TEST_F(CompareCommandTest, AnswersInOnePieceHaveNoTpot) {
  Write(
      "chunk.json",
      R"({"backend": "vllm", "completed": 2, "input_lens": [1000, 1000], "output_lens": [100, 100],
            "ttfts": [0.78, 0.78], "itls": [[], []], "errors": ["", ""], "start_times": [0, 1]})");
  EXPECT_EQ(Run({"compare", "chunk.json", "--metrics", "mean_ttft_ms,p99_e2el_ms"}).out,
            "metric        unit  chunk.json\n"
            "mean_ttft_ms  ms           780\n"
            "p99_e2el_ms   ms           780\n");
  EXPECT_THAT(Run({"compare", "chunk.json"}).out, Not(HasSubstr("tpot")));
}

TEST_F(CompareCommandTest, FilesOfOneNameAreToldApartByTheirFolders) {
  for (const char* folder : {"x/ra", "x/rb", "y/ra"}) {
    std::filesystem::create_directories(scratch_.path() / folder);
    Write(std::string(folder) + "/log.csv", testing::kMeasuredLog);
  }
  EXPECT_THAT(Run({"compare", "x/ra/log.csv", "x/rb/log.csv"}).out,
              ContainsRegex("^metric +unit +ra/log.csv +rb/log.csv +change"));
  EXPECT_THAT(Run({"compare", "x/ra/log.csv", "y/ra/log.csv"}).out,
              ContainsRegex("^metric +unit +x/ra/log.csv +y/ra/log.csv +change"));
}

TEST_F(CompareCommandTest, ANoteNamesColumnsThatAreNotUsed) {
  Write("log.csv", "start_time,prompt_tokens,output_tokens,ttft,e2e_s\n5,10,5,20,0.06\n");
  EXPECT_EQ(Run({"compare", "log.csv"}).err,
            "note: log.csv: not used: start_time, ttft (the name of a time ends with its unit: "
            "ttft_ms, e2e_s)\n");
}

TEST_F(CompareCommandTest, ConfigurationsOfRunsAreComparedBesideAMeasuredRun) {
  (void)RunSmall("a");
  (void)RunSmall("b", {"--set", "seed=2"});
  Write("log.csv", testing::kMeasuredLog);
  const json got = json::parse(
      Run({"compare", "a", "log.csv", "b", "--metrics", "completed", "--format", "json"}).out);
  EXPECT_EQ(got["config"][0]["values"], (json{"3", nullptr, "2"}));
  EXPECT_EQ(got["runs"][1]["path"], "log.csv");
}

TEST_F(CompareCommandTest, RefusesWhatMeasuredRunsLackInOneLine) {
  Write("log.csv", testing::kMeasuredLog);
  Write("words.csv", "some,words\n1,2\n");
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--draws", "20"}, {"--perfetto", "trace.json"}}) {
    std::vector<std::string> arguments = {"compare", "log.csv"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandOutcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.err,
              "twinserve: " + more[0] + ": log.csv is a measured run; allowed: run directories\n");
  }
  const CommandOutcome words = Run({"compare", "words.csv"});
  EXPECT_EQ(words.exit_code, 1);
  EXPECT_TRUE(words.wrote_one_line()) << words.err;
  EXPECT_THAT(words.err, HasSubstr("words.csv:1: has no column prompt_tokens; allowed: a log"));
}

// A process name and a request's slice stand in the file as plain text.
TEST_F(CompareCommandTest, PutsAllRunsIntoOnePerfettoTrace) {
  (void)RunSmall("first");
  (void)RunSmall("second", {"--set", "policy.vllm_v1.max_num_seqs=8"});
  const CommandOutcome outcome = Run({"compare", "first", "second/", "--perfetto", "both.pftrace"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string trace = ReadText(scratch_.File("both.pftrace"));
  for (const char* text : {"first", "second", "request 199"}) EXPECT_THAT(trace, HasSubstr(text));
  EXPECT_EQ(Run({"compare", "first", "nope", "--perfetto", "x"}).exit_code, 2);
}

using DoctorCommandTest = testing::ExperimentFolderTest;

TEST_F(DoctorCommandTest, TellsWhatIsThere) {
  const CommandOutcome outcome = Run({"doctor"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  if (Run({"generate"}).needs_another_build()) GTEST_SKIP() << "no devices to tell of";
  for (const char* name : {"program", "cpu", "cuda", "nccl", "mpi", "--list models"}) {
    EXPECT_THAT(outcome.out, HasSubstr(name));
  }
}

// Values of config.json (Llama 3 8B), of the data sheet, and of the policy's config struct.
TEST_F(DoctorCommandTest, ListsWhatExperimentsCanName) {
  const std::string models = Run({"doctor", "--list", "models"}).out;
  EXPECT_THAT(models, ContainsRegex("llama-3-8b +8\\.03 +8\\.03 +32 +4096 +32 +8 +8192"));
  EXPECT_THAT(Run({"doctor", "--list", "families"}).out,
              HasSubstr("| `jamba`, `mamba` | refused: "));
  EXPECT_THAT(Run({"doctor", "--list", "hardware"}).out, ContainsRegex("h100-sxm +86 +3350"));
  const std::string policies = Run({"doctor", "--list", "policies"}).out;
  EXPECT_THAT(policies, HasSubstr("sarathi\n  Sarathi-Serve (OSDI 2024)"));
  EXPECT_THAT(policies, HasSubstr("    chunk_size: 512\n"));
  EXPECT_THAT(Run({"doctor", "--list", "cost-models"}).out,
              HasSubstr("roofline\n  Each operation"));
}

TEST_F(DoctorCommandTest, TellsItAsJson) {
  if (Run({"generate"}).needs_another_build()) GTEST_SKIP() << "no devices to tell of";
  const json doctor = json::parse(Run({"doctor", "--format", "json"}).out);
  EXPECT_GE(doctor["cpu"]["usable_cores"].get<int>(), 1);
  for (const char* part : {"cuda", "nccl", "mpi"}) {
    ASSERT_TRUE(doctor[part]["usable"].is_boolean()) << part;
    if (!doctor[part]["usable"].get<bool>()) {
      EXPECT_NE(doctor[part]["reason"], "") << part;
    }
  }
}

// --format was ignored.
TEST_F(DoctorCommandTest, ListsAsJsonToo) {
  const auto first_of = [&](const char* list, const char* key, const std::string& name) {
    for (const json& one : json::parse(Run({"doctor", "--list", list, "--format", "json"}).out)) {
      if (one[key] == name) return one;
    }
    return json();
  };
  EXPECT_EQ(first_of("models", "model", "llama-3-8b")["layers"], 32);
  EXPECT_EQ(first_of("hardware", "hardware", "h100-sxm")["memory_bandwidth_bytes_per_s"], 3.35e12);
  EXPECT_EQ(first_of("servers", "server", "vllm-0.8.5")["policy"], "vllm_v1");
  EXPECT_THAT(first_of("policies", "name", "sarathi")["defaults"].dump(),
              HasSubstr("\"chunk_size: 512\""));
  EXPECT_THAT(first_of("cost-models", "name", "roofline")["description"].dump(),
              HasSubstr("Each operation"));
  const CommandOutcome page = Run({"doctor", "--list", "configuration", "--format", "json"});
  EXPECT_EQ(page.exit_code, 2);
  EXPECT_THAT(page.err, HasSubstr("--format: json of --list configuration, which is a page"));
}

using CommandLineTest = testing::ExperimentFolderTest;

TEST_F(CommandLineTest, UsageErrorsEndWithTwoAndHelpWithZero) {
  for (const std::vector<std::string>& bad : std::vector<std::vector<std::string>>{
           {}, {"rnu"}, {"run"}, {"run", "a", "--format", "xml"}}) {
    const CommandOutcome outcome = Run(bad);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_THAT(outcome.err, HasSubstr("--help"));
  }
  for (const char* good : {"--help", "--version"}) {
    const CommandOutcome outcome = Run({good});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_THAT(outcome.out, HasSubstr("twinserve"));
    EXPECT_THAT(outcome.err, IsEmpty());
  }
}

}  // namespace
}  // namespace twin::apps
