// Command lines of servers and load generators, as --serve and --bench take them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "apps/experiment_options/bench_line.h"
#include "apps/experiment_options/launch_line.h"
#include "apps/experiment_options/line_options.h"
#include "apps/experiment_options/option_experiment.h"
#include "apps/experiment_options/shell_commands.h"
#include "config/servers/servers.h"
#include "core/input_error.h"

namespace twin::apps {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Words = std::vector<std::string>;

std::string RefusalOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ShellCommandsTest, QuotesAndBackslashesAreResolved) {
  EXPECT_THAT(ShellCommands("x", R"(a 'b "c' "d 'e \"f\"" g\ h '' "")"),
              ElementsAre(Words{"a", "b \"c", "d 'e \"f\"", "g h", "", ""}));
  EXPECT_THAT(ShellCommands("x", "a\"b\"'c'd"), ElementsAre(Words{"abcd"}));
  // Inside double quotes a backslash stays in front of other characters.
  EXPECT_THAT(ShellCommands("x", R"("\d\\")"), ElementsAre(Words{R"(\d\)"}));
}

TEST(ShellCommandsTest, LinesContinueBehindABackslash) {
  EXPECT_THAT(ShellCommands("x", "a \\\n  b\\\nc\n d"), ElementsAre(Words{"a", "bc"}, Words{"d"}));
}

TEST(ShellCommandsTest, OperatorsEndACommandAndRedirectionsAreLeftOut) {
  EXPECT_THAT(ShellCommands("x", "a 1 > log 2>&1 & b;c|d && e # f"),
              ElementsAre(Words{"a", "1"}, Words{"b"}, Words{"c"}, Words{"d"}, Words{"e"}));
  EXPECT_THAT(ShellCommands("x", "a x2>y"), ElementsAre(Words{"a", "x2"}));
  EXPECT_THAT(ShellCommands("x", "  \n "), IsEmpty());
}

TEST(ShellCommandsTest, AnOpenQuoteIsRefused) {
  EXPECT_THAT(RefusalOf([] { ShellCommands("run: --serve", "a 'b"); }),
              HasSubstr("run: --serve: the quote ' of character 3 is not closed"));
}

TEST(LineOptionsTest, AnOptionTakesAsManyWordsAsItHasValues) {
  const std::map<std::string_view, ValueCount> counts = {{"--none", ValueCount::kNone},
                                                         {"--switch", ValueCount::kSwitch},
                                                         {"--one", ValueCount::kOne}};
  const auto values_of = [&](std::string_view name) {
    return counts.contains(name) ? counts.at(name) : ValueCount::kMany;
  };
  const Words words = {"model",  "--none", "p1", "--switch", "p2",      "--switch",
                       "False",  "--one",  "-1", "p3",       "--one=2", "p4",
                       "--many", "1",      "-2", "--empty",  "-O3"};
  const LineOptions line = OptionsOfLine(words, values_of);
  EXPECT_THAT(line.positionals, ElementsAre("model", "p1", "p2", "p3", "p4"));
  std::vector<std::string> options;
  for (const LineOption& option : line.options) {
    options.push_back(option.name + ":");
    for (const std::string& value : option.values) options.back() += " " + value;
  }
  EXPECT_THAT(options, ElementsAre("--none:", "--switch:", "--switch: False", "--one: -1",
                                   "--one: 2", "--many: 1 -2", "--empty:", "-O: 3"));
}

TEST(LineOptionsTest, AProgramIsFoundBehindOthersAndInAFolder) {
  const Words words = {"nohup", "/usr/bin/vllm", "serve", "MODEL"};
  EXPECT_EQ(AfterProgram(words, "vllm serve"), 3U);
  EXPECT_EQ(AfterProgram(words, "vllm bench"), kNoProgram);
  EXPECT_EQ(AfterProgram(words, "serve MODEL more"), kNoProgram);
  EXPECT_EQ(AfterProgram(words, "llm serve"), kNoProgram);
}

// Fields that the lines set, and the flags beside them.
OptionExperiment Made(const std::string& serve, const std::string& bench) {
  GivenOptions asked;
  asked.given[ExperimentOption::kHardware] = {"--hardware", "h100"};
  TakeLaunchLine(serve, asked);
  TakeBenchLine(bench, asked);
  OptionExperiment made = ExperimentOf(asked, "run");
  made.not_simulated.insert(made.not_simulated.begin(), asked.not_simulated.begin(),
                            asked.not_simulated.end());
  return made;
}

constexpr const char* kVllm = "vllm serve meta-llama/Llama-3.1-8B";
constexpr const char* kRate = "vllm bench serve --request-rate 3";

TEST(LaunchLineTest, EveryServerIsKnownByItsPrograms) {
  const auto server_of = [](const std::string& line) {
    const OptionExperiment made = Made(line, kRate);
    return *std::ranges::find_if(made.changes, [](const std::string& change) {
      return change.starts_with("system.server=");
    });
  };
  EXPECT_EQ(server_of("A=1 nohup vllm serve llama-3.1-8b"),
            "system.server=" + std::string(*NewestOfServer("vllm")));
  EXPECT_EQ(server_of("python3 -m vllm.entrypoints.openai.api_server --model llama-3.1-8b"),
            "system.server=" + std::string(*NewestOfServer("vllm")));
  EXPECT_EQ(server_of("python3 -m sglang.launch_server --model llama-3.1-8b"),
            "system.server=" + std::string(*NewestOfServer("sglang")));
  EXPECT_EQ(server_of("mpirun -n 2 trtllm-serve serve llama-3.1-8b"),
            "system.server=" + std::string(*NewestOfServer("trtllm")));
  EXPECT_EQ(server_of("text-generation-launcher --model-id llama-3.1-8b"),
            "system.server=" + std::string(*NewestOfServer("tgi")));
}

TEST(LaunchLineTest, AContainerNamesTheRelease) {
  const std::string docker = "docker run --gpus all -e HF_TOKEN=x -p 8000:8000 ";
  EXPECT_THAT(Made(docker + "vllm/vllm-openai:v0.15.1 --model llama-3.1-8b", kRate).changes,
              Contains("system.server=vllm/vllm-openai:v0.15.1"));
  EXPECT_THAT(
      Made(docker + "docker.io/vllm/vllm-openai:latest --model llama-3.1-8b", kRate).changes,
      Contains("system.server=" + std::string(*NewestOfServer("vllm"))));
}

TEST(LaunchLineTest, FlagsSetTheFieldsThatOptionsSet) {
  const OptionExperiment made =
      Made(std::string(kVllm) + " -tp 2 --max_num_seqs=64 --no-enable-prefix-caching -O3", kRate);
  EXPECT_THAT(made.changes, Contains("system.tensor_parallel=2"));
  EXPECT_THAT(made.changes, Contains("policy.vllm_v1.max_num_seqs=64"));
  EXPECT_THAT(made.changes, Contains("policy.vllm_v1.enable_prefix_caching=false"));
  EXPECT_THAT(made.not_simulated, ElementsAre("-O"));
}

TEST(LaunchLineTest, FlagsOfAnotherDeploymentAreNamed) {
  EXPECT_THAT(Made(std::string(kVllm) + " --decode-context-parallel-size 2 --quantization petit "
                                        "--speculative-config '{\"method\": \"eagle\"}' --ghost 1",
                   kRate)
                  .not_simulated,
              ElementsAre("--ghost (no flag of vLLM that is known)",
                          "--decode-context-parallel-size (ranks that divide the KV cache)",
                          "--quantization (petit)", "--speculative-config (drafts)"));
}

TEST(LaunchLineTest, DraftsOfNGramsAreSimulated) {
  EXPECT_THAT(Made(std::string(kVllm) + " --speculative-config '{\"method\": \"ngram\", "
                                        "\"num_speculative_tokens\": 3}'",
                   kRate)
                  .changes,
              Contains("speculation.method=ngram"));
}

// Without it they would divide the experts, or be whole copies.
TEST(LaunchLineTest, RanksOfTensorParallelismStandInForThoseOfAttention) {
  const OptionExperiment vllm = Made("vllm serve Qwen/Qwen3-30B-A3B -dp 4 -ep", kRate);
  EXPECT_THAT(vllm.changes, Contains("system.tensor_parallel=4"));
  EXPECT_THAT(vllm.not_simulated, ElementsAre("-dp (data parallelism of attention; 4 ranks of "
                                              "tensor parallelism stand in)"));
  const OptionExperiment sglang =
      Made("sglang serve --model Qwen/Qwen3-30B-A3B --tp 4 --dp 4 --enable-dp-attention", kRate);
  EXPECT_THAT(sglang.changes, Contains("system.tensor_parallel=4"));
  EXPECT_THAT(sglang.changes, Not(Contains("system.replicas=4")));
  const OptionExperiment dense = Made(std::string(kVllm) + " -dp 4", kRate);
  EXPECT_THAT(dense.changes, Contains("system.replicas=4"));
}

TEST(LaunchLineTest, ARopeScalingLengthensThePositions) {
  const OptionExperiment made = Made(
      "sglang serve --model Qwen/Qwen3-8B --json-model-override-args '{\"rope_scaling\": "
      "{\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": "
      "32768}}'",
      kRate);
  EXPECT_THAT(made.changes, Contains("system.model_shape.max_position=131072"));
  EXPECT_THAT(made.not_simulated, IsEmpty());
}

TEST(LaunchLineTest, ALineThatStartsNoServerIsRefused) {
  GivenOptions asked;
  EXPECT_THAT(RefusalOf([&] { TakeLaunchLine("vllm bench serve", asked); }),
              HasSubstr("--serve: \"vllm bench serve\" starts no server; allowed: a line with one "
                        "of vllm serve, "));
}

TEST(LaunchLineTest, AServerThatAnOptionContradictsIsRefused) {
  GivenOptions asked;
  asked.given[ExperimentOption::kServer] = {"--server", "SGLang"};
  EXPECT_THAT(RefusalOf([&] { TakeLaunchLine(kVllm, asked); }),
              HasSubstr("--serve: starts vLLM, but --server names SGLang; allowed: one of them"));
}

TEST(BenchLineTest, TheDefaultsAreThoseOfTheProgram) {
  const OptionExperiment vllm = Made(kVllm, "vllm bench serve");
  EXPECT_THAT(vllm.changes, Contains("workload.arrivals.kind=all_at_once"));
  EXPECT_THAT(vllm.changes, Contains("workload.requests=1000"));
  EXPECT_THAT(vllm.changes, Contains("workload.shape.prompt.value=1024"));
  EXPECT_THAT(vllm.changes, Contains("workload.shape.output.value=128"));
  // SGLang draws from 1 to the length.
  const OptionExperiment sglang = Made(kVllm, "python3 -m sglang.bench_serving --num-prompt 7");
  EXPECT_THAT(sglang.changes, Contains("workload.requests=7"));
  EXPECT_THAT(sglang.changes, Contains("workload.shape.output.min=1"));
  EXPECT_THAT(sglang.changes, Contains("workload.shape.output.max=1024"));
  const OptionExperiment aiperf = Made(kVllm, "aiperf profile --osl 9");
  EXPECT_THAT(aiperf.changes, Contains("workload.arrivals.users=1"));
  EXPECT_THAT(aiperf.changes, Contains("workload.shape.prompt.value=550"));
}

// L (1 - R) to L (1 + R), but R L to L in InferenceX's copy of the earlier script.
TEST(BenchLineTest, TheProgramSaysWhatARangeRatioMeans) {
  const std::string options =
      " --request-rate inf --random-input-len 1000 --random-range-ratio 0.8 --max-concurrency 4";
  EXPECT_THAT(Made(kVllm, "vllm bench serve" + options).changes,
              Contains("workload.shape.prompt.max=1800"));
  const OptionExperiment earlier =
      Made(kVllm, "python3 bench_serving/benchmark_serving.py" + options);
  EXPECT_THAT(earlier.changes, Contains("workload.shape.prompt.min=800"));
  EXPECT_THAT(earlier.changes, Contains("workload.shape.prompt.max=1000"));
}

TEST(BenchLineTest, GuidellmsRateMeansWhatItsKindSays) {
  const std::string data = " --data 'prompt_tokens=256,output_tokens=128'";
  const OptionExperiment users =
      Made(kVllm, "guidellm benchmark --rate-type concurrent --rate 16" + data);
  EXPECT_THAT(users.changes, Contains("workload.arrivals.users=16"));
  EXPECT_THAT(users.changes, Contains("workload.shape.prompt.value=256"));
  EXPECT_THAT(Made(kVllm, "guidellm benchmark --profile poisson --rate 2.5" + data).changes,
              Contains("workload.arrivals.rate=2.5"));
  EXPECT_THAT(Made(kVllm, "guidellm benchmark --rate-type sweep" + data).not_simulated,
              ElementsAre("--rate-type (sweep; all at once stands in)"));
  EXPECT_THAT(RefusalOf([&] { Made(kVllm, "guidellm benchmark" + data); }),
              HasSubstr("--bench: does not say when requests come; allowed: --rate-type"));
}

TEST(BenchLineTest, ADatasetThatIsNotHereIsNamed) {
  EXPECT_THAT(Made(kVllm, "vllm bench serve --dataset-name sharegpt --dataset-path no/such.json")
                  .not_simulated,
              ElementsAre("--dataset-name (sharegpt is not here: the lengths above stand in)",
                          "--dataset-path (no/such.json is not here: the lengths above stand in)"));
}

TEST(BenchLineTest, OptionsOfThisProgramHoldAgainstTheLine) {
  GivenOptions asked;
  asked.given[ExperimentOption::kHardware] = {"--hardware", "h100"};
  asked.given[ExperimentOption::kRate] = {"--rate", "5"};
  TakeLaunchLine(kVllm, asked);
  TakeBenchLine("vllm bench serve --request-rate 3", asked);
  EXPECT_THAT(ExperimentOf(asked, "run").changes, Contains("workload.arrivals.rate=5"));
}

TEST(BenchLineTest, ALineThatStartsNoLoadGeneratorIsRefused) {
  GivenOptions asked;
  EXPECT_THAT(
      RefusalOf([&] { TakeBenchLine("vllm serve m", asked); }),
      HasSubstr("--bench: \"vllm serve m\" starts no load generator; allowed: a line with"));
}

}  // namespace
}  // namespace twin::apps
