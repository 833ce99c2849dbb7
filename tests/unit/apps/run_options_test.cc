// twinserve run and twinserve resolve with options in place of a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "core/number_text.h"
#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using ::testing::AllOf;
using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

using Words = std::vector<std::string>;

Words Together(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

const Words kLlama = {"--model", "meta-llama/Llama-3.1-8B", "--hardware", "h100"};
const Words kServed = Together(kLlama, {"--server", "vLLM 0.33.0"});
const Words kLoaded = Together(kServed, {"--rate", "10", "--requests", "100"});

class RunOptionsTest : public testing::ExperimentFolderTest {
 protected:
  RunOptionsTest() {
    Write("times.csv", "arrival_ns,prompt_tokens,output_tokens\n0,7,3\n1000000,500,9\n");
    Write("lengths.csv", "prompt_tokens,output_tokens\n7,3\n500,9\n");
  }

  [[nodiscard]] CommandOutcome RunOptions(const Words& options) const {
    return Run(Together({"run"}, options));
  }
  // The text on stdout of a run that must succeed.
  [[nodiscard]] std::string Answer(const Words& options) const {
    const CommandOutcome outcome = RunOptions(options);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  }
  // The digest of a run that must succeed.
  [[nodiscard]] std::string Digest(const std::string& out, const Words& arguments) const {
    const CommandOutcome outcome =
        Run(Together({"run", "--format", "json", "--out", out}, arguments));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return SummaryOf(out)["digest"].get<std::string>();
  }
  [[nodiscard]] std::string Resolved(const Words& options) const {
    const CommandOutcome outcome = Run(Together({"resolve"}, options));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  }
};

TEST_F(RunOptionsTest, AnswersWithWhatWasRunLatenciesCountsAndTheBottleneck) {
  const CommandOutcome outcome = RunOptions(kLoaded);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  // The recorded run of a similar size; 3.64 % in checks/fidelity/expected/errors.csv.
  EXPECT_THAT(outcome.out,
              StartsWith("Certainty: one more draw of arrivals and errors of the cost model lies "
                         "within an interval with 90 % (20 draws); nearest recorded run: "
                         "llama-2-7b on 1 x h100-sxm, vLLM 0.15.1, "
                         "mean E2E 3.6 % off\n"
                         "llama-3.1-8b on 1 x h100-sxm (h100 means the SXM board), vLLM 0.33.0 "
                         "(8192 tokens, 1024 sequences a step), "));
  EXPECT_THAT(outcome.out,
              HasSubstr("; 1024 + 128 tokens, Poisson 10/s, seed 1; not given: lengths, "
                        "seed\n"));
  for (const char* const row :
       {"mean     p50     p90     p99    90 % of means\n", "\nTTFT          ms",
        "\nTPOT          ms", "\nITL           ms", "\nE2E           ms",
        "\nrequests      100 completed, 0 rejected", "\ntokens        ", "\nKV cache      ",
        "\nwarnings      none\n", "\nBottleneck: none at this load.",
        "\nTried: twice the load (--rate 20) -> p99 TTFT ",
        "\nLargest load: twinserve capacity runs/llama-3.1-8b_h100-sxm_r10/"}) {
    EXPECT_THAT(outcome.out, HasSubstr(row));
  }
  EXPECT_LE(std::ranges::count(outcome.out, '\n'), 15);
  EXPECT_EQ(outcome.err, "wrote runs/llama-3.1-8b_h100-sxm_r10\n");
}

TEST_F(RunOptionsTest, SaysWhatTheUserLeftOpen) {
  const Words few = {"--set", "workload.requests=20"};
  EXPECT_THAT(Answer(Together(Together(kLlama, {"--concurrency", "4"}), few)),
              AllOf(HasSubstr("vLLM 0.33.0 ("), HasSubstr("4 users who wait"),
                    HasSubstr("; not given: server, lengths, requests, seed\n")));
  EXPECT_THAT(Answer(Together(kLlama, {"--server", "vLLM", "--rate", "5", "--input-len", "64",
                                       "--output-len", "8", "--requests", "100", "--seed", "3"})),
              AllOf(HasSubstr("vLLM 0.33.0, the newest that is known ("), HasSubstr("seed 3\n"),
                    Not(HasSubstr("not given"))));
}

TEST_F(RunOptionsTest, TheWrittenExperimentRunsWithAnEqualDigest) {
  const std::string digest =
      Digest("options", Together(kLoaded, {"--write-config", "one.textproto", "--set", "seed=5"}));
  EXPECT_EQ(Digest("file", {"one.textproto"}), digest);
  const std::string text = ReadText(scratch_.File("one.textproto"));
  EXPECT_THAT(text, AllOf(HasSubstr("value: 1024  # not given\n"), HasSubstr("seed: 5\n"),
                          HasSubstr("hardware: \"h100-sxm\"  # h100 means the SXM board\n"),
                          HasSubstr("server: \"vLLM 0.33.0\"\n")));
}

TEST_F(RunOptionsTest, TheResolvedExperimentRunsWithAnEqualDigest) {
  const std::string digest = Digest("options", kLoaded);
  for (const Words& more : {Words{}, Words{"--changed"}}) {
    Write("resolved.textproto", Resolved(Together(kLoaded, more)));
    EXPECT_EQ(Digest("file", {"resolved.textproto"}), digest);
  }
}

TEST_F(RunOptionsTest, TheResolvedExperimentSaysWhereItsValuesComeFrom) {
  EXPECT_THAT(Resolved(kLoaded),
              AllOf(HasSubstr("rate: 10  # option\n"), HasSubstr("seed: 1  # chosen: not given\n"),
                    HasSubstr("max_num_seqs: 1024  # server vllm-0.33.0\n"),
                    HasSubstr("layers: 32  # model llama-3.1-8b\n"),
                    HasSubstr("sm_count: 132  # hardware h100-sxm\n"),
                    HasSubstr("max_in_flight: 0  # default\n")));
  EXPECT_THAT(Resolved({"small.textproto"}), AllOf(HasSubstr("max_num_seqs: 16  # file\n"),
                                                   HasSubstr("policy: fcfs  # default\n")));
  EXPECT_THAT(Resolved({"small.textproto", "--changed"}), Not(HasSubstr("# default")));
}

// The command of vllm bench serve, word by word.
TEST_F(RunOptionsTest, TheNamesOfVllmsBenchmarkMeanTheSame) {
  const std::string ours =
      Digest("ours", Together(kServed, {"--rate", "10", "--requests", "100", "--input-len", "900",
                                        "--output-len", "20", "--concurrency", "256"}));
  const Words theirs =
      Together(kServed, {"--request-rate", "10", "--num-prompts", "100", "--random-input-len",
                         "900", "--random-output-len", "20", "--max-concurrency", "256", "--port",
                         "8000", "--backend", "openai-chat", "--ignore-eos", "-tp", "1"});
  EXPECT_EQ(Digest("theirs", theirs), ours);
  EXPECT_THAT(Answer(theirs),
              AllOf(HasSubstr("900 + 20 tokens, Poisson 10/s, at most 256 in flight"),
                    HasSubstr("\nwithout effect here: --port, --ignore-eos, --backend\n")));
}

TEST_F(RunOptionsTest, TheNamesOfOtherProgramsMeanTheSame) {
  const std::string ours =
      Digest("ours", Together(kServed, {"--rate", "10", "--requests", "200", "--input-len", "90",
                                        "--output-len", "10"}));
  EXPECT_EQ(Digest("aiperf", {"-m", "llama-3.1-8b", "--system", "h100_sxm", "--backend", "vllm",
                              "--backend-version", "0.33.0", "--request-rate", "10",
                              "--request-count", "200", "--isl", "90", "--osl", "10"}),
            ours);
  EXPECT_EQ(Digest("blis", {"--model", "Llama 3.1 8B", "--hardware", "H100", "--vllm-version",
                            "0.33.0", "--rate", "10", "--num-requests", "200", "--prompt-tokens",
                            "90", "--output-tokens", "10"}),
            ours);
}

TEST_F(RunOptionsTest, TheFlagsOfAServerSetItsFields) {
  EXPECT_THAT(
      Resolved(Together(kLoaded, {"--max-num-seqs", "64", "--max-num-batched-tokens", "512",
                                  "--max-model-len", "4096", "--gpu-memory-utilization", "0.8",
                                  "--kv-cache-dtype", "fp8", "--no-enable-prefix-caching"})),
      AllOf(HasSubstr("max_num_seqs: 64  # option\n"),
            HasSubstr("max_num_batched_tokens: 512  # option\n"),
            HasSubstr("max_model_len: 4096  # option\n"), HasSubstr("utilization: 0.8  # option\n"),
            HasSubstr("kv_dtype: fp8  # option\n"),
            HasSubstr("enable_prefix_caching: false  # option\n")));
  EXPECT_THAT(Resolved({"--model", "llama-3.1-8b", "--hardware", "h100", "--backend", "sglang",
                        "--rate", "2", "--chunked-prefill-size", "2048", "--mem-fraction-static",
                        "0.7", "--schedule-policy", "lpm", "--tp-size", "2"}),
              AllOf(HasSubstr("chunked_prefill_size: 2048  # option\n"),
                    HasSubstr("utilization: 0.7  # option\n"),
                    HasSubstr("schedule_policy: lpm  # option\n"),
                    HasSubstr("tensor_parallel: 2  # option\n")));
}

TEST_F(RunOptionsTest, FlagsTakeTheValuesOfTheServer) {
  EXPECT_THAT(
      Resolved(
          Together(kLoaded, {"--max-num-batched-tokens", "2k", "--max-model-len", "4K",
                             "--block-size", "32", "--no-async-scheduling", "--scheduling-policy",
                             "priority", "--num-gpu-blocks-override", "1000", "--enforce-eager"})),
      AllOf(HasSubstr("max_num_batched_tokens: 2000  # option\n"),
            HasSubstr("max_model_len: 4096  # option\n"), HasSubstr("block_size: 32  # option\n"),
            HasSubstr("async_scheduling: false  # option\n"),
            HasSubstr("policy: priority  # option\n"),
            HasSubstr("blocks_override: 1000  # option\n"),
            HasSubstr("captures_graphs: false  # option\n")));
  EXPECT_EQ(Resolved(Together(kLoaded, {"--max-model-len", "auto", "--dtype", "bfloat16",
                                        "--enforce-eager=false"})),
            Resolved(kLoaded));
  EXPECT_THAT(Resolved({"--model", "llama-3.1-8b", "--hardware", "h100", "--backend", "sglang",
                        "--rate", "2", "--chunked-prefill-size", "-1", "--page-size", "16",
                        "--schedule-conservativeness", "0.3", "--disable-overlap-schedule",
                        "--cuda-graph-max-bs", "64"}),
              AllOf(HasSubstr("chunked_prefill_size: -1  # option\n"),
                    HasSubstr("block_size: 16  # option\n"),
                    HasSubstr("schedule_conservativeness: 0.3  # option\n"),
                    HasSubstr("overlap: false  # option\n"),
                    HasSubstr("captured_size_max: 64  # option\n")));
}

TEST_F(RunOptionsTest, FlagsThatAreNotSimulatedAreNamed) {
  const Words flags = Together(kLoaded, {"--requests", "10", "--disable-log-requests",
                                         "--attention-backend", "FLASH_ATTN", "--api-key", "x"});
  EXPECT_THAT(Answer(flags), HasSubstr("\nwithout effect here: --disable-log-requests, --api-key\n"
                                       "not simulated and may matter: --attention-backend\n"));
}

TEST_F(RunOptionsTest, TheConfigurationOfDraftsSetsTheirFields) {
  EXPECT_THAT(
      Resolved(Together(kLoaded, {"--speculative-config",
                                  "{\"method\": \"ngram\", \"num_speculative_tokens\": 3}"})),
      AllOf(HasSubstr("method: ngram  # option\n"),
            HasSubstr("num_speculative_tokens: 3  # option\n")));
}

// The flags that recommend prints (server_command_test.cc).
TEST_F(RunOptionsTest, TheFlagsOfARecommendedCommandAreTakenBack) {
  EXPECT_THAT(
      Resolved(Together(
          kLoaded, {"--tensor-parallel-size", "2", "--pipeline-parallel-size", "2",
                    "--quantization", "fp8", "--max-num-batched-tokens", "2048", "--max-num-seqs",
                    "64", "--max-model-len", "4096", "--gpu-memory-utilization", "0.95"})),
      AllOf(HasSubstr("  tensor_parallel: 2  # option\n"),
            HasSubstr("  pipeline_parallel: 2  # option\n"),
            HasSubstr("weight_dtype: fp8  # option\n"),
            HasSubstr("max_num_batched_tokens: 2048  # option\n"),
            HasSubstr("max_num_seqs: 64  # option\n"), HasSubstr("max_model_len: 4096  # option\n"),
            HasSubstr("utilization: 0.95  # option\n")));
}

TEST_F(RunOptionsTest, OptionsDescribeEveryKindOfLoad) {
  const auto resolved = [&](const Words& load) { return Resolved(Together(kServed, load)); };
  EXPECT_THAT(resolved({"--rate", "inf", "--concurrency", "8"}),
              AllOf(HasSubstr("kind: all_at_once"), HasSubstr("max_in_flight: 8  # option")));
  EXPECT_THAT(resolved({"--rate", "4", "--burstiness", "0.25"}),
              AllOf(HasSubstr("kind: gamma"), HasSubstr("cv: 2  # option")));
  EXPECT_THAT(resolved({"--concurrency", "8", "--think", "0.5"}),
              AllOf(HasSubstr("kind: closed_loop"), HasSubstr("users: 8  # option"),
                    HasSubstr("mean_s: 0.5  # option")));
  EXPECT_THAT(resolved({"--ramp", "1,9,60"}),
              AllOf(HasSubstr("rate_to: 9  # option"), HasSubstr("ramp_s: 60  # option")));
  EXPECT_THAT(resolved({"--trace", "times.csv", "--rate-scale", "2"}),
              AllOf(HasSubstr("times.csv\"  # option"), HasSubstr("rate_scale: 2  # option")));
  EXPECT_THAT(resolved({"--trace", "lengths.csv", "--rate", "3"}),
              AllOf(HasSubstr("lengths.csv\"  # option"), HasSubstr("rate: 3  # option")));
  EXPECT_THAT(resolved({"--rate", "3", "--preset", "code", "--goodput", "ttft:200", "tpot:50"}),
              AllOf(HasSubstr("preset: code  # option"), HasSubstr("ttft_s: 0.2  # option"),
                    HasSubstr("tpot_s: 0.05  # option")));
}

TEST_F(RunOptionsTest, NoPolicyLearnsTheLengthOfAnAnswer) {
  EXPECT_THAT(Resolved(Together(kServed, {"--rate", "3", "--output-range", "10,90"})),
              HasSubstr("  max_output {\n    kind: fixed  # chosen: no policy learns the length of "
                        "an answer\n    factor: 1  # default\n    value: 90  # option\n"));
}

TEST_F(RunOptionsTest, NamesWhatHoldsTheSystemBack) {
  const Words small = {"--model", "llama-3.1-8b", "--hardware", "h100", "--requests", "600"};
  EXPECT_THAT(Answer(Together(small, {"--rate", "200"})),
              AllOf(HasSubstr("\nBottleneck: load. "), HasSubstr("\nTried: ")));
}

// Two replicas halve the queue of each, but they are further devices: they come second.
TEST_F(RunOptionsTest, AdviceGivesTheNumbersOfTheRunThatFollowsIt) {
  const Words limited = {"--model",    "llama-3.1-8b", "--hardware",    "h100",
                         "--requests", "200",          "--concurrency", "16"};
  const std::string answer = Answer(Together(limited, {"--max-num-seqs", "8"}));
  EXPECT_THAT(answer, HasSubstr("\nBottleneck: sequences. "));
  std::smatch found;
  ASSERT_TRUE(std::regex_search(
      answer, found,
      std::regex("\nTried: --max-num-seqs 16 -> mean TTFT ([0-9.]+) to ([0-9.]+) ms")))
      << answer;
  const auto mean_ttft_ms = [&](const std::string& out, const std::string& sequences) {
    const Words followed = {"--max-num-seqs", sequences, "--format", "json", "--out", out};
    EXPECT_EQ(RunOptions(Together(limited, followed)).exit_code, 0);
    return SummaryOf(out)["mean_ttft_ms"].get<double>();
  };
  EXPECT_EQ(TableNumber(mean_ttft_ms("before", "8")), found[1]);
  EXPECT_EQ(TableNumber(mean_ttft_ms("after", "16")), found[2]);
  EXPECT_LT(std::stod(found[2]), std::stod(found[1]));
  EXPECT_THAT(answer, HasSubstr("\nTried: --replicas 2 (2 devices) -> "));
}

TEST_F(RunOptionsTest, RunsOfOtherOptionsKeepTheirDirectories) {
  const auto wrote = [&](const Words& more) { return RunOptions(Together(kLoaded, more)).err; };
  EXPECT_EQ(wrote({}), "wrote runs/llama-3.1-8b_h100-sxm_r10\n");
  EXPECT_EQ(wrote({"--tp", "2"}), "wrote runs/llama-3.1-8b_h100-sxm_r10-2\n");
  EXPECT_EQ(wrote({"--replicas", "2"}), "wrote runs/llama-3.1-8b_h100-sxm_r10-3\n");
  EXPECT_EQ(wrote({"--tp", "2"}),
            "runs/llama-3.1-8b_h100-sxm_r10-2: replaces the run that is there\n"
            "wrote runs/llama-3.1-8b_h100-sxm_r10-2\n");
}

TEST_F(RunOptionsTest, ABackendSaysWhatARangeRatioMeans) {
  const auto resolved = [&](const Words& more) {
    return Resolved(Together(kLlama, Together({"--rate", "3", "--input-len", "1000"}, more)));
  };
  EXPECT_THAT(resolved({"--backend", "vllm", "--random-range-ratio", "0"}),
              AllOf(HasSubstr("kind: fixed"), HasSubstr("value: 1000  # option")));
  EXPECT_THAT(resolved({"--backend", "vllm", "--random-range-ratio", "0.2"}),
              AllOf(HasSubstr("min: 800  # option"), HasSubstr("max: 1200  # option")));
  EXPECT_THAT(resolved({"--backend", "sglang", "--random-range-ratio", "0.2"}),
              AllOf(HasSubstr("min: 200  # option"), HasSubstr("max: 1000  # option")));
}

TEST_F(RunOptionsTest, OptionsOfAClientAloneAreNamedAsIgnored) {
  EXPECT_THAT(Answer(Together(kLoaded, {"--temperature", "0", "--append-result", "--metadata",
                                        "a=1", "b=2", "--artifact-dir", "d"})),
              HasSubstr("\nwithout effect here: --temperature, --append-result, --metadata, "
                        "--artifact-dir\n"));
}

TEST_F(RunOptionsTest, LinesThatPeoplePasteMeanTheOptionsInThem) {
  const std::string ours =
      Digest("ours", Together(kServed, {"--rate", "10", "--requests", "100", "--input-len", "900",
                                        "--output-len", "20", "--max-num-seqs", "64"}));
  const Words pasted = {"--hardware",
                        "h100",
                        "--bench",
                        "vllm bench serve --request-rate 10 --num-prompts 100 --random-input-len "
                        "900 --random-output-len 20 --save-result --model llama > log 2>&1 &",
                        "--serve",
                        "HF_TOKEN=x vllm serve meta-llama/Llama-3.1-8B --max-num-seqs=64 --port 80 "
                        "--attention-backend FLASH_ATTN"};
  EXPECT_EQ(Digest("theirs", pasted), ours);
  EXPECT_THAT(Answer(pasted),
              HasSubstr("\nsimulated: --max-num-seqs, --request-rate, --num-prompts, "
                        "--random-input-len, --random-output-len\n"
                        "without effect here: HF_TOKEN, --save-result, --model, --port\n"
                        "not simulated and may matter: --attention-backend\n"));
}

TEST_F(RunOptionsTest, APastedLineBesideAFileIsRefused) {
  const CommandOutcome outcome =
      RunOptions({"small.textproto", "--serve", "vllm serve llama-3-8b"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("two ways to name an experiment"));
}

// The users of a full server begin and end together; the line has the numbers of the mixed run.
TEST_F(RunOptionsTest, UsersInStepAreSaidAndMixed) {
  const auto answer = [&](const Words& outputs) {
    return Answer(
        Together(kServed, Together({"--concurrency", "32", "--requests", "320"}, outputs)));
  };
  const std::string in_step = answer({"--output-len", "100"});
  std::smatch said;
  ASSERT_TRUE(std::regex_search(in_step, said,
                                std::regex(R"(\nIn step: .* mixed \(--output-range 90,110\) -> )"
                                           R"(mean TTFT \S+ to (\S+) ms)")))
      << in_step;
  const std::string mixed = answer({"--output-range", "90,110"});
  EXPECT_THAT(mixed, ::testing::ContainsRegex("\nTTFT +ms +" + said[1].str() + " "));
  EXPECT_THAT(mixed, Not(HasSubstr("In step: ")));
}

// A budget of 1 token would lengthen every prompt a thousandfold.
TEST_F(RunOptionsTest, WhereNothingWaitsNoSettingIsAdvised) {
  const std::string answer =
      Answer({"--backend", "sglang", "--model-path", "Qwen/Qwen3-14B", "--hardware", "h200",
              "--tp-size", "2", "--request-rate", "8", "--num-prompts", "200"});
  EXPECT_THAT(answer, AllOf(HasSubstr("; no run of SGLang was recorded\n"),
                            HasSubstr("\nBottleneck: none at this load."),
                            Not(HasSubstr("--chunked-prefill-size"))));
}

TEST_F(RunOptionsTest, AFileIsRepeatedWhereItsUserAsksForIt) {
  const CommandOutcome once = Run({"run", "small.textproto"});
  EXPECT_THAT(once.out, AllOf(StartsWith("Certainty: no intervals: --draws 20 makes them\n"),
                              HasSubstr("\nTTFT          ms"), Not(HasSubstr("\nTried: "))));
  const CommandOutcome repeated = Run({"run", "small.textproto", "--draws", "20"});
  EXPECT_THAT(repeated.out, AllOf(HasSubstr("(20 draws)"), HasSubstr("\nBottleneck: ")));
  EXPECT_THAT(
      Run({"run", "small.textproto", "--draws", "3"}).err,
      StartsWith("twinserve: --draws: 3 have no interval of 90 %; allowed: 0, or at least "));
}

struct BadOptions {
  const char* name;
  Words options;
  std::string error;  // one line, without the name of the program
};

class BadOptionsTest : public RunOptionsTest, public ::testing::WithParamInterface<BadOptions> {};

TEST_P(BadOptionsTest, GetOneLineThatSaysWhatIsAllowed) {
  const CommandOutcome outcome = RunOptions(GetParam().options);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, "twinserve: run: " + GetParam().error + "\n");
  EXPECT_THAT(outcome.out, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    All, BadOptionsTest,
    ::testing::Values(
        BadOptions{"NoHardware",
                   {"--model", "llama-3.1-8b", "--rate", "10"},
                   "--hardware: missing; allowed: a device of twinserve doctor --list hardware, "
                   "such as h100"},
        BadOptions{"NoLoad", kLlama,
                   "the load is open; allowed: --rate R (requests per second), --concurrency N "
                   "(users who wait for their answers) or --trace FILE"},
        BadOptions{"UnknownHardware",
                   {"--model", "llama-3.1-8b", "--hardware", "h1000", "--rate", "10"},
                   "--hardware: no device \"h1000\"; nearest h100-sxm, h100-pcie, h100-nvl; "
                   "allowed: see twinserve doctor --list hardware"},
        BadOptions{
            "ModelWithoutSize",
            {"--model", "llama3", "--hardware", "h100", "--rate", "10"},
            "--model: no model \"llama3\", and no folder or config.json of that name; nearest "
            "llama-3-8b, llama-3-70b, llama-3.1-8b; allowed: see twinserve doctor --list models"},
        BadOptions{"CountBeforeTheDevice",
                   {"--model", "llama-3.1-8b", "--hardware", "4xh100", "--rate", "10"},
                   "--hardware: \"4xh100\" is a number of devices; allowed: h100 with --tp 4 (one "
                   "engine) or --replicas 4 (engines of one device)"},
        BadOptions{"CountBehindTheDevice",
                   {"--model", "llama-3.1-8b", "--hardware", "H200x2", "--rate", "10"},
                   "--hardware: \"H200x2\" is a number of devices; allowed: H200 with --tp 2 (one "
                   "engine) or --replicas 2 (engines of one device)"},
        BadOptions{"UnknownModel",
                   {"--model", "meta-llama/Llama-3.9-8B", "--hardware", "h100", "--rate", "10"},
                   "--model: no model \"meta-llama/Llama-3.9-8B\", and no folder or config.json of "
                   "that name; nearest llama-3.1-8b, llama-3-8b; allowed: see twinserve doctor "
                   "--list models"},
        BadOptions{"OldServer", Together(kLlama, {"--server", "vLLM 0.5", "--rate", "10"}),
                   "--server: \"vLLM 0.5\" is older than vllm-0.6.3, the oldest that is known; "
                   "allowed: see twinserve doctor --list servers"},
        BadOptions{"NegativeRate", Together(kLlama, {"--rate", "-1"}),
                   "--rate: is -1; allowed: a number above 0, or inf (all at once)"},
        BadOptions{"RateOfATraceWithTimes",
                   Together(kLlama, {"--rate", "10", "--trace", "times.csv"}),
                   "--rate: times.csv has times of its own; allowed: --trace alone, --rate-scale "
                   "X, or --rate with a trace without times"},
        BadOptions{"LengthsOfATrace", Together(kLlama, {"--trace", "f", "--input-len", "9"}),
                   "--input-len: lengths come from f; allowed: one of --trace, --input-len"},
        BadOptions{"TooLongRequests", Together(kLlama, {"--rate", "10", "--input-len", "200000"}),
                   "--input-len: 200000 + 128 tokens exceed llama-3.1-8b's 131072; allowed: 131072 "
                   "together"},
        BadOptions{"RanksThatDoNotDivide", Together(kLlama, {"--rate", "10", "--tp", "3"}),
                   "--tp: is 3; allowed: divisors of the 32 heads of llama-3.1-8b: 1, 2, 4, 8, 16, "
                   "32"},
        BadOptions{"RangeRatio", Together(kLlama, {"--rate", "10", "--random-range-ratio", "0.5"}),
                   "--random-range-ratio: vLLM's bench means 512 to 1536 tokens, SGLang's 512 to "
                   "1024; allowed: --input-range 512,1536 or --input-range 512,1024, or "
                   "with --backend"},
        BadOptions{"AFileToo",
                   {"small.textproto", "--model", "llama-3.1-8b"},
                   "--model: two ways to name an experiment; allowed: the file with --set "
                   "system.model=llama-3.1-8b, or options alone"},
        BadOptions{"NoModel",
                   {"--hardware", "h100", "--rate", "10"},
                   "--model: missing; allowed: a model of twinserve doctor --list models, such as "
                   "llama-3.1-8b, its id on huggingface.co, its folder or its config.json"},
        BadOptions{"TraceWithoutTimes", Together(kLlama, {"--trace", "lengths.csv"}),
                   "--trace: lengths.csv has no times; allowed: with --rate R or --concurrency N"},
        BadOptions{"FlagOfAnotherServer",
                   Together(kServed, {"--rate", "10", "--mem-fraction-static", "0.7"}),
                   "--mem-fraction-static: no flag of vLLM 0.33.0, but of SGLang; allowed: "
                   "--gpu-memory-utilization"},
        BadOptions{"FlagOfAnotherServerAlone",
                   Together(kServed, {"--rate", "10", "--schedule-conservativeness", "0.7"}),
                   "--schedule-conservativeness: no flag of vLLM 0.33.0, but of SGLang; allowed: "
                   "see twinserve doctor --list server-settings"},
        BadOptions{"AnotherDeployment",
                   {"--model", "llama-3.1-8b", "--hardware", "h100", "--backend", "sglang",
                    "--rate", "10", "--enable-dp-attention"},
                   "--enable-dp-attention: makes another deployment (data parallelism of "
                   "attention), which is not simulated; allowed: without it"},
        BadOptions{"SomeOfTheRanksForExperts",
                   {"--model", "mixtral-8x7b", "--hardware", "h100", "--backend", "sglang",
                    "--rate", "10", "--tp-size", "4", "--ep-size", "2"},
                   "--ep-size: is 2; allowed: 1, or all of the 4 ranks"},
        BadOptions{"DraftsWithoutAMethod",
                   Together(kServed, {"--rate", "10", "--speculative-config", "{}"}),
                   "--speculative-config: is {}; allowed: an object of JSON with method and "
                   "num_speculative_tokens"},
        BadOptions{"CopiesOfAMixture",
                   {"--model", "deepseek-v3", "--hardware", "h200", "--tp", "8", "--rate", "1",
                    "--data-parallel-size", "2"},
                   "--data-parallel-size: replicas of a mixture of experts share them, which is "
                   "not simulated; allowed: --replicas N, whole copies"},
        BadOptions{"Horizon", Together(kLlama, {"--rate", "10", "--horizon", "1000000"}),
                   "--horizon: counts microseconds; allowed: --duration, in seconds"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(RunOptionsTest, OneDataParallelRankIsNone) {
  const Words mixture = {"--model", "qwen3-30b-a3b", "--hardware", "h100", "--rate", "1"};
  EXPECT_THAT(Resolved(Together(mixture, {"--data-parallel-size", "1"})),
              HasSubstr("qwen3-30b-a3b"));
}

// Weights of 70 billion parameters in 16 bits need two devices, and the longest request four. 0.92
// of the device is 78.7 GB.
TEST_F(RunOptionsTest, AModelThatDoesNotFitSaysHowManyDevicesItNeeds) {
  const Words large = {"--model", "llama-3.1-70b", "--hardware", "h100", "--rate", "1"};
  const CommandOutcome outcome = RunOptions(large);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.out, IsEmpty());
  const std::string begin =
      "twinserve: run: llama-3.1-70b: 141.1 GB of weights do not fit into 78.7 GB of h100-sxm; "
      "allowed: --tp 4 or more, or --tp 2 with --max-model-len ";
  ASSERT_THAT(outcome.err, StartsWith(begin));
  const std::string rest = outcome.err.substr(begin.size());
  const std::string length = rest.substr(0, rest.find(' '));
  EXPECT_EQ(rest, length + " or less\n");

  const Words shorter = Together(large, {"--tp", "2", "--requests", "2", "--max-model-len"});
  EXPECT_EQ(RunOptions(Together(shorter, {length})).exit_code, 0);
  const std::string longer = std::to_string(std::stoi(length) + 1);
  EXPECT_EQ(RunOptions(Together(shorter, {longer})).exit_code, 2);
  EXPECT_EQ(RunOptions(Together(large, {"--tp", "4", "--requests", "2"})).exit_code, 0);
}

TEST_F(RunOptionsTest, AMisspeltOptionNamesTheNearest) {
  const CommandOutcome outcome = RunOptions({"--modle", "llama-3.1-8b"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("no option \"--modle\"; nearest \"--model\""));
}

}  // namespace
}  // namespace twin::apps
