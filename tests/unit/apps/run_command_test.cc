// twinserve run, from the files that it is given to those that it leaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using nlohmann::json;
using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

using RunCommandTest = testing::ExperimentFolderTest;

TEST_F(RunCommandTest, LeavesADirectoryWithEveryFile) {
  const CommandOutcome outcome = Run({"run", "small.textproto", "--out", "made/run"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "wrote made/run\n");
  EXPECT_THAT(outcome.out, HasSubstr("TTFT          ms"));
  EXPECT_THAT(Files("made"), UnorderedElementsAre("run"));
  EXPECT_THAT(Files("made/run"),
              UnorderedElementsAre("config.resolved.textproto", "provenance.json", "summary.json",
                                   "requests.csv", "steps.csv", "series.csv", "record.pb",
                                   "trace.pftrace"));
}

TEST_F(RunCommandTest, TheSummaryHasTheNamesThatScriptsRelyOn) {
  const json summary = RunSmall("run");
  EXPECT_TRUE(summary["digest"].is_string());
  EXPECT_EQ(summary["requests"], 200);
  EXPECT_EQ(summary["requests"].get<int>(), summary["completed"].get<int>() +
                                                summary["rejected"].get<int>() +
                                                summary["cancelled"].get<int>());
  for (const char* name :
       {"steps", "simulated_seconds", "cpu_seconds", "peak_rss_mib", "mean_ttft_ms", "p99_ttft_ms",
        "mean_tpot_ms", "mean_itl_ms", "p99_itl_ms", "mean_e2el_ms", "request_throughput",
        "output_throughput"}) {
    ASSERT_TRUE(summary.contains(name)) << name;
    EXPECT_GT(summary[name].get<double>(), 0) << name;
  }
  EXPECT_EQ(summary["interrupted"], 0);
}

TEST_F(RunCommandTest, TheResultOnStdoutIsTheSummary) {
  const CommandOutcome outcome = Run({"run", "small.textproto", "--out", "run", "--format=json"});
  EXPECT_EQ(json::parse(outcome.out), SummaryOf("run"));
}

TEST_F(RunCommandTest, AnExperimentThatSaysNoFilesLeavesTheThreeThatAreAlwaysThere) {
  (void)RunSmall("run", {"--set", "outputs.requests_csv=false", "--set", "outputs.steps_csv=false",
                         "--set", "outputs.series_csv=false", "--set", "outputs.record=false",
                         "--set", "outputs.perfetto=false"});
  EXPECT_THAT(Files("run"),
              UnorderedElementsAre("config.resolved.textproto", "provenance.json", "summary.json"));
}

// Everything but what the process itself used must be equal, and so must be every file of results.
TEST_F(RunCommandTest, TheResolvedConfigRunsAgainToTheSameResults) {
  json first = RunSmall("first", {"--set", "policy.vllm_v1.max_num_seqs=5", "--set", "seed=9"});
  const CommandOutcome again =
      Run({"run", "first/config.resolved.textproto", "--out", "elsewhere/second"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  json second = SummaryOf("elsewhere/second");
  for (json* summary : {&first, &second}) {
    summary->erase("cpu_seconds");
    summary->erase("peak_rss_mib");
  }
  EXPECT_EQ(first, second);
  for (const char* file :
       {"requests.csv", "steps.csv", "series.csv", "config.resolved.textproto"}) {
    EXPECT_EQ(ReadText(scratch_.File(std::string("first/") + file)),
              ReadText(scratch_.File(std::string("elsewhere/second/") + file)))
        << file;
  }
}

// Whatever serves the replicas: one thread, several, or the loop that also writes files.
TEST_F(RunCommandTest, TheNumberOfJobsDoesNotChangeTheResults) {
  std::vector<std::string> cluster = {"--set", "system.replicas=40",
                                      "--set", "workload.arrivals.rate=800",
                                      "--set", "workload.requests=2000"};
  json in_time = RunSmall("files", cluster);
  for (const char* const file : {"requests_csv", "steps_csv", "series_csv", "record", "perfetto"}) {
    cluster.insert(cluster.end(), {"--set", std::string("outputs.") + file + "=false"});
  }
  cluster.emplace_back("--jobs");
  const auto forget_process = [](json& summary) {
    summary.erase("cpu_seconds");
    summary.erase("peak_rss_mib");
  };
  forget_process(in_time);
  for (const char* const jobs : {"1", "2", "5"}) {
    std::vector<std::string> arguments = cluster;
    arguments.emplace_back(jobs);
    json summary = RunSmall("run", arguments);
    forget_process(summary);
    EXPECT_EQ(summary, in_time) << jobs;
  }
}

TEST_F(RunCommandTest, AnotherSeedGivesAnotherDigest) {
  EXPECT_NE(RunSmall("a")["digest"], RunSmall("b", {"--set", "seed=4"})["digest"]);
}

TEST_F(RunCommandTest, ATraceServesInsteadOfAShape) {
  Write("two.csv", "arrival_ns,prompt_tokens,output_tokens\n0,7,3\n1000000,500,9\n");
  Write("trace.textproto",
        "schema_version: 1 name: 'trace' workload { trace { path: 'two.csv' } }"
        " policy { vllm_v1 { max_model_len: 400 } } system { model: 'llama-3-8b'"
        " hardware: 'h100-sxm' } cost { constant { step_s: 0.01 } }");
  const CommandOutcome outcome = Run({"run", "trace.textproto", "--out", "run"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json summary = SummaryOf("run");
  EXPECT_EQ(summary["completed"], 1);
  EXPECT_EQ(summary["rejected"], 1);
  EXPECT_DOUBLE_EQ(summary["mean_ttft_ms"].get<double>(), 10);
  EXPECT_DOUBLE_EQ(summary["mean_e2el_ms"].get<double>(), 30);
}

// 10 % of 200 are left out at the begin, 5 % at the end; all of them ended.
TEST_F(RunCommandTest, CountsWhatIsInsideTheMeasuredWindow) {
  const json summary =
      RunSmall("run", {"--set", "metrics.head_share=0.1", "--set", "metrics.tail_share=0.05"});
  EXPECT_EQ(summary["requests"], 170);
  EXPECT_EQ(summary["unfinished"], 0);
}

TEST_F(RunCommandTest, RefusesAWindowOfMoreRequestsThanCame) {
  const CommandOutcome outcome =
      Run({"run", "small.textproto", "--out", "run", "--set", "workload.requests=1000", "--set",
           "workload.duration_s=5", "--set", "metrics.head_share=0.5"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("metrics.head_share"));
  EXPECT_THAT(outcome.err, HasSubstr("1000"));
  EXPECT_THAT(Files(), UnorderedElementsAre("small.textproto"));
}

TEST_F(RunCommandTest, TellsOfTenantsOnlyWhereTheyAreAskedFor) {
  EXPECT_FALSE(RunSmall("run").contains("tenants"));
  EXPECT_EQ(RunSmall("run", {"--set", "metrics.by_tenant=true"})["tenants"], 1);
}

TEST_F(RunCommandTest, WarnsOfStagesThatThePolicyCannotFill) {
  const std::vector<std::string> two_stages = {"run",   "small.textproto",           "--out", "run",
                                               "--set", "system.pipeline_parallel=2"};
  const CommandOutcome idle = Run(two_stages);
  EXPECT_EQ(idle.exit_code, 0);
  EXPECT_THAT(idle.err, StartsWith("warning: system.pipeline_parallel is 2, but policy.vllm_v1"));
  std::vector<std::string> filled = two_stages;
  filled.insert(filled.end(), {"--set", "policy.vllm_v1.pipeline_parallel_size=2"});
  EXPECT_EQ(Run(filled).err, "run: replaces the run that is there\nwrote run\n");
}

// The policy's own limit binds though the memory is planned for longer requests.
TEST_F(RunCommandTest, OutputsEndAtThePolicysLimitOfLength) {
  const json summary = RunSmall(
      "run", {"--set", "system.memory.max_model_length=2048", "--set",
              "system.memory.blocks_override=200", "--set", "policy.vllm_v1.max_model_len=32"});
  EXPECT_EQ(summary["requests"], 200);
  EXPECT_GT(summary["completed"].get<int>(), 0);
  EXPECT_GT(summary["rejected"].get<int>(), 0);
}

TEST_F(RunCommandTest, ReplacesAnEarlierRunAndNothingElse) {
  const json first = RunSmall("run");
  EXPECT_NE(RunSmall("run", {"--set", "seed=4"})["digest"], first["digest"]);
  EXPECT_THAT(Files(), UnorderedElementsAre("run", "small.textproto"));

  std::filesystem::create_directory(scratch_.path() / "mine");
  Write("mine/notes.txt", "mine");
  const CommandOutcome refused = Run({"run", "small.textproto", "--out", "mine"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(refused.wrote_one_line()) << refused.err;
  EXPECT_THAT(refused.err, StartsWith("twinserve: mine: "));
  EXPECT_THAT(Files("mine"), UnorderedElementsAre("notes.txt"));
  EXPECT_THAT(Files(), UnorderedElementsAre("mine", "run", "small.textproto"));
}

// What another process left, or is at work on, is not this one's to delete.
TEST_F(RunCommandTest, LeavesTheUnfinishedFoldersOfOthersAlone) {
  for (const char* theirs : {"run.partial", "run.partial.1"}) {
    std::filesystem::create_directory(scratch_.path() / theirs);
    Write(std::string(theirs) + "/notes.txt", "theirs");
  }
  (void)RunSmall("run");
  EXPECT_THAT(Files(),
              UnorderedElementsAre("run", "run.partial", "run.partial.1", "small.textproto"));
  EXPECT_THAT(Files("run.partial"), UnorderedElementsAre("notes.txt"));
}

// A folder counts as an earlier run's by its summary and its config, not by one file.
TEST_F(RunCommandTest, ReplacesNoFolderThatOnlyLooksLikeARun) {
  std::filesystem::create_directory(scratch_.path() / "mine");
  for (const char* file : {"mine/provenance.json", "mine/summary.json"}) {
    Write(file, "{}");
    EXPECT_EQ(Run({"run", "small.textproto", "--out", "mine"}).exit_code, 2) << file;
  }
  Write("mine/config.resolved.textproto", "");
  EXPECT_EQ(Run({"run", "small.textproto", "--out", "mine"}).exit_code, 0);
}

TEST_F(RunCommandTest, RefusesTheCurrentFolderEvenIfItHoldsARun) {
  Write("summary.json", "{}");
  Write("config.resolved.textproto", "");
  const auto before = Files();
  const std::string absolute = scratch_.path().string();
  for (const std::string& out : {std::string("."), std::string("./"), absolute, absolute + "/.."}) {
    const CommandOutcome outcome = Run({"run", "small.textproto", "--out", out});
    EXPECT_EQ(outcome.exit_code, 2) << out;
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
    EXPECT_EQ(Files(), before);
  }
}

struct Refusal {
  std::string name;
  std::vector<std::string> arguments;  // behind "run"
  int exit_code;
  std::vector<std::string> says;
};

void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

class RunRefusalTest : public testing::ExperimentFolderTest,
                       public ::testing::WithParamInterface<Refusal> {};

TEST_P(RunRefusalTest, IsOneLineThatNamesThePlaceAndLeavesNothing) {
  Write("misspelt.textproto", "schema_version: 1\nname: 'x'\nworkload { reqests: 3 }\n");
  Write("broken.textproto", "schema_version: 1\nname: {\n");
  Write("empty.textproto", "");
  Write("negative.csv", "arrival_ns,prompt_tokens,output_tokens\n0,7,3\n1000000,8,-9\n");
  Write("trace.textproto",
        "schema_version: 1 name: 'trace' workload { trace { path: 'negative.csv' } }"
        " policy { orca {} } system { model: 'llama-3-8b' hardware: 'h100-sxm' }"
        " cost { constant { step_s: 0.01 } }");
  Write("file", "no folder");
  const auto before = Files();
  std::vector<std::string> arguments = {"run"};
  arguments.insert(arguments.end(), GetParam().arguments.begin(), GetParam().arguments.end());
  const CommandOutcome outcome = Run(arguments);
  EXPECT_EQ(outcome.exit_code, GetParam().exit_code);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
  for (const std::string& said : GetParam().says) EXPECT_THAT(outcome.err, HasSubstr(said));
  EXPECT_EQ(Files(), before);
}

std::vector<Refusal> Refusals() {
  const std::string small = "small.textproto";
  return {
      {"MissingFile", {"nope.textproto", "--out", "run"}, 2, {"nope.textproto"}},
      {"AFolder", {".", "--out", "run"}, 2, {"."}},
      {"EmptyFile", {"empty.textproto", "--out", "run"}, 2, {"empty.textproto"}},
      {"MisspeltField",
       {"misspelt.textproto", "--out", "run"},
       2,
       {"misspelt.textproto:3", "reqests", "requests"}},
      {"BrokenSyntax", {"broken.textproto", "--out", "run"}, 2, {"broken.textproto:2"}},
      {"MisspeltSet",
       {small, "--out", "run", "--set", "polcy.orca.max_bs=1"},
       2,
       {"polcy", "policy"}},
      {"SetOfAWrongType", {small, "--out", "run", "--set", "seed=many"}, 2, {"seed=many"}},
      {"SetBelowTheLeast",
       {small, "--out", "run", "--set", "policy.vllm_v1.max_num_seqs=0"},
       2,
       {"policy.vllm_v1.max_num_seqs"}},
      {"SetWithoutValue", {small, "--out", "run", "--set", "seed"}, 2, {"--set seed"}},
      {"FieldsThatContradict",
       {small, "--out", "run", "--set", "policy.vllm_v1.max_num_batched_tokens=4"},
       2,
       {"max_num_batched_tokens", "max_num_seqs"}},
      {"JobsOfARealWorld",
       {small, "--out", "run", "--jobs", "2", "--unset", "cost", "--set", "world.real={}"},
       2,
       {"--jobs", "simulated"}},
      {"UnknownModel",
       {small, "--out", "run", "--set", "system.model=\"llama-9\""},
       2,
       {"llama-9"}},
      {"ModelThatDoesNotFit",
       {small, "--out", "run", "--set", "system.memory.blocks_override=1"},
       2,
       {"1 blocks"}},
      {"SwapsWithoutHostBlocks",
       {small, "--out", "run", "--set", "policy=vllm_v0 {preemption_mode: swap max_model_len: 512}",
        "--set", "system.memory.swap_bytes=0"},
       2,
       {"system.memory.swap_bytes", "vllm_v0", "2097152"}},
      {"NameWithASlash", {small, "--set", "name=a/b"}, 2, {"name", "a/b"}},
      {"NameOfTheFolderAbove", {small, "--set", "name=.."}, 2, {"name", ".."}},
      {"NameThatIsEmpty", {small, "--set", "name="}, 2, {"name"}},
      {"OutputIsHere", {small, "--out", "."}, 2, {"."}},
      {"OutputBelowAFile", {small, "--out", "file/run"}, 2, {"file/run"}},
      {"OutputIsAFile", {small, "--out", "file"}, 2, {"file"}},
      {"OutputThatNobodyMayMake", {small, "--out", "/proc/run"}, 2, {"/proc/run"}},
      {"BadTraceLine", {"trace.textproto", "--out", "run"}, 1, {"negative.csv:3", "output_tokens"}},
  };
}

INSTANTIATE_TEST_SUITE_P(Inputs, RunRefusalTest, ::testing::ValuesIn(Refusals()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace twin::apps
