// The exit code and the one line of every command for every kind of bad input: 2 for a wrong
// command line or experiment, 1 for everything else that fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>

#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct BadCall {
  std::string name;
  std::vector<std::string> arguments;
  int exit_code;
  std::string words;  // in the line on stderr
};

std::ostream& operator<<(std::ostream& out, const BadCall& call) { return out << call.name; }

std::string TinyModel() { return std::string(TWIN_SOURCE_DIR) + "/tests/golden/models/tiny-llama"; }

class ExitCodeTest : public testing::ExperimentFolderTest,
                     public ::testing::WithParamInterface<BadCall> {
 protected:
  ExitCodeTest() {
    Write("bad.textproto", "worlds {}\n");
    Write("bad.csv", "what,is,this\n1,2,3\n");
    Write("bad.ndjson", "no json\n");
    Write("gemm_h100_sxm.csv", "backend,dtype,m,n,k,latency_us\nvllm,bfloat16,1,64,64,9\n");
    Write("good.csv", "send_us,in_tokens,out_tokens\n0,1,1\n");
    Write("good.ndjson", "{\"prompt\": 0, \"token_ids\": [1, 2]}\n");
    std::filesystem::create_directory(scratch_.path() / "empty");
    std::filesystem::create_directory(scratch_.path() / "mine");
    Write("mine/notes.txt", "mine");
  }
};

TEST_P(ExitCodeTest, IsThatOfItsKindWithOneLineThatSaysWhy) {
  const auto before = Files();
  const CommandOutcome outcome = Run(GetParam().arguments);
  if (outcome.needs_another_build()) GTEST_SKIP() << outcome.err;
  EXPECT_EQ(outcome.exit_code, GetParam().exit_code) << outcome.err;
  EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().words));
  EXPECT_EQ(Files(), before);
}

INSTANTIATE_TEST_SUITE_P(
    Usage, ExitCodeTest,
    ::testing::Values(
        BadCall{"no_command", {}, 2, "subcommand"},
        BadCall{"command", {"rum"}, 2, "no command \"rum\"; nearest \"run\"; allowed: run, "},
        BadCall{"top_option", {"--verson"}, 2, "no option \"--verson\"; nearest \"--version\""},
        BadCall{"option",
                {"run", "small.textproto", "--ouput", "x"},
                2,
                "twinserve: run: no option \"--ouput\"; nearest \"--out\""},
        BadCall{"nested_command", {"trace", "inf"}, 2, "no command \"inf\"; nearest \"info\""},
        BadCall{"word",
                {"generate", "--device", "gpu"},
                2,
                "--device: no value \"gpu\"; nearest \"cpu\"; allowed: cpu, cuda"},
        BadCall{"run_missing_argument", {"run"}, 2, "EXPERIMENT"},
        BadCall{"run_missing_file", {"run", "none.textproto"}, 2, "none.textproto"},
        BadCall{"run_file_named_as_a_command", {"run", "sweep"}, 2, "twinserve: sweep: "},
        BadCall{"run_bad_experiment", {"run", "bad.textproto"}, 2, "bad.textproto:1:1"},
        BadCall{
            "run_bad_field", {"run", "small.textproto", "--set", "sed=1"}, 2, "nearest \"seed\""},
        BadCall{"run_bad_unset", {"run", "small.textproto", "--unset", "sed"}, 2, "--unset sed"},
        BadCall{"run_number",
                {"run", "small.textproto", "--set", "workload.arrivals.rate=1e300"},
                2,
                "found 1e+300; allowed: 1e-09 to 1000000000"},
        BadCall{"run_out", {"run", "small.textproto", "--out", "mine"}, 2, "choose another --out"},
        BadCall{"validate_simulated", {"validate", "small.textproto"}, 2, "world"},
        BadCall{"replay_no_run", {"replay", "empty"}, 2, "record.pb"},
        BadCall{"compare_no_run", {"compare", "empty"}, 2, "empty"},
        BadCall{"generate_policy",
                {"generate", "--model", TinyModel(), "--prompts", "good.ndjson", "--out", "g",
                 "--policy", "vllm_v3"},
                2,
                "vllm_v3"},
        BadCall{"trace_lengths",
                {"trace", "generate", "t.csv", "--requests", "1", "--prompt", "fixed:0.5"},
                2,
                "found 0.5; allowed"},
        BadCall{"bench_format",
                {"bench", "--model", TinyModel(), "--dtype", "fp16"},
                2,
                "allowed: fp32, bf16, int8"},
        BadCall{"profile_missing_argument", {"profile", "--model", TinyModel()}, 2, "--out"}),
    [](const auto& call) { return call.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Failure, ExitCodeTest,
    ::testing::Values(
        BadCall{"run_bad_trace",
                {"run", "small.textproto", "--unset", "workload", "--set",
                 "workload.trace.path=bad.csv", "--out", "r"},
                1,
                "bad.csv"},
        BadCall{"schedule_missing_file", {"schedule", "none.ndjson"}, 1, "none.ndjson: cannot be"},
        BadCall{"trace_missing_file", {"trace", "info", "none.csv"}, 1, "none.csv: cannot be"},
        BadCall{"fit_missing_file", {"fit", "none.csv", "--out", "f"}, 1, "none.csv: cannot be"},
        BadCall{"generate_missing_prompts",
                {"generate", "--model", TinyModel(), "--prompts", "none", "--out", "g"},
                1,
                "none: cannot be read"},
        BadCall{"trace_bad_file", {"trace", "info", "bad.csv"}, 1, "bad.csv"},
        BadCall{"schedule_bad_case", {"schedule", "bad.ndjson"}, 1, "bad.ndjson:1"},
        BadCall{"fit_bad_profile", {"fit", "bad.csv", "--out", "f"}, 1, "bad.csv"},
        BadCall{"generate_bad_prompts",
                {"generate", "--model", TinyModel(), "--prompts", "bad.ndjson", "--out", "g"},
                1,
                "bad.ndjson:1"},
        BadCall{
            "generate_full_disk",
            {"generate", "--model", TinyModel(), "--prompts", "good.ndjson", "--out", "/dev/full"},
            1,
            "/dev/full: cannot be written: No space left on device"},
        BadCall{"generate_out",
                {"generate", "--model", TinyModel(), "--prompts", "good.ndjson", "--out", "no/g"},
                1,
                "no/g: cannot be written: No such file"},
        BadCall{"trace_generate_out",
                {"trace", "generate", "no/t.csv", "--requests", "1", "--prompt", "fixed:1",
                 "--output", "fixed:1"},
                1,
                "no/t.csv: cannot be written: No such file"},
        BadCall{"trace_convert_out",
                {"trace", "convert", "good.csv", "no/t.csv"},
                1,
                "no/t.csv: cannot be written: No such file"},
        BadCall{"predict_out",
                {"predict", "ops", "--hardware", "h100-sxm", "--op", "gemm", "--in",
                 "gemm_h100_sxm.csv", "--out", "no/m.csv"},
                1,
                "no/m.csv: cannot be written: No such file"},
        BadCall{"fit_out",
                {"fit", "none.csv", "--out", "bad.csv/f"},
                1,
                "bad.csv/f: cannot be written: Not a directory"},
        BadCall{"import_out",
                {"import", "aiconfigurator", ".", "--out", "bad.csv/o"},
                1,
                "twinserve: bad.csv/o: cannot be written: Not a directory"}),
    [](const auto& call) { return call.param.name; });

class StdoutTest : public testing::ExperimentFolderTest {};

TEST_F(StdoutTest, OutputThatCannotBeWrittenIsAFailure) {
  (void)RunSmall("run");
  for (const std::string call : {"compare run", "--version", "--help", "doctor --list models"}) {
    const std::string line = "cd '" + scratch_.path().string() + "' && '" + TWINSERVE + "' " +
                             call + " > /dev/full 2> err.txt";
    const int status = std::system(line.c_str());
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 1) << call;
    EXPECT_THAT(ReadText(scratch_.File("err.txt")),
                ::testing::StartsWith("twinserve: stdout: cannot be written"))
        << call;
  }
}

TEST_F(StdoutTest, HelpSaysWhatTheExitCodesMean) {
  const CommandOutcome outcome = Run({"--help"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, IsEmpty());
  for (const char* line : {"  0  success", "  1  failure: ", "  2  usage: "}) {
    EXPECT_THAT(outcome.out, HasSubstr(line));
  }
  if (Run({"generate"}).needs_another_build()) return;
  EXPECT_THAT(Run({"generate", "--help"}).out, HasSubstr("--device cpu|cuda"));
}

}  // namespace
}  // namespace twin::apps
