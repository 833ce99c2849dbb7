// Every command with device CUDA, as its users run it, on an emulated device: the program is
// emulated_main.cc, which says how a test's environment describes the device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "apps/profile/profile_measurements.h"
#include "tests/golden/models/reference_model.h"
#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using nlohmann::json;
using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kExperiment = R"(schema_version: 1
name: "cuda"
seed: 3
world { real { device: CUDA threads: 1 dummy_weights: true } }
workload {
  requests: 10
  arrivals { kind: poisson rate: 2000 }
  shape {
    prompt { kind: uniform min: 1 max: 40 }
    output { kind: uniform min: 2 max: 8 }
  }
}
policy { vllm_v1 { max_num_batched_tokens: 64 max_num_seqs: 8 max_model_len: 128 } }
system {
  model_shape {
    name: "tiny" layers: 2 hidden: 32 intermediate: 48 query_heads: 4 kv_heads: 2 head_dim: 8
    vocab: 101 max_position: 128 weight_dtype: bf16 kv_dtype: bf16
  }
  hardware: "h200-sxm"
  memory { blocks_override: 60 }
}
cost { linear { base_s: 0.0001 } }
)";

constexpr const char* kConfig = R"({"model_type": "llama", "hidden_size": 32,
  "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "vocab_size": 50, "max_position_embeddings": 128,
  "rms_norm_eps": 1e-5, "tie_word_embeddings": true})";

// cudaErrorMemoryAllocation, cudaErrorIllegalAddress
constexpr const char* kNoMemory = "2";
constexpr const char* kIllegalAddress = "700";

class CudaCommandLineTest : public testing::ExperimentFolderTest {
 protected:
  CudaCommandLineTest() {
    Write("cuda.textproto", kExperiment);
    Write("config.json", kConfig);
    // The algorithm cache of this test alone.
    Set("XDG_CACHE_HOME", scratch_.path().string());
  }
  ~CudaCommandLineTest() override {
    for (const std::string& name : set_) unsetenv(name.c_str());
  }

  void Set(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    set_.insert(name);
  }

  [[nodiscard]] CommandOutcome RunCuda(const std::string& out,
                                       const std::vector<std::string>& assignments = {}) const {
    std::vector<std::string> arguments = {"run", "cuda.textproto", "--out", out};
    for (const std::string& assignment : assignments) {
      arguments.insert(arguments.end(), {"--set", assignment});
    }
    return Run(arguments);
  }

  // One line with these words behind the loader's warnings, and no run directory, whole or half.
  void ExpectRefusal(const CommandOutcome& outcome, int exit_code, const std::string& words) const {
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    std::vector<std::string> said;
    std::istringstream lines(outcome.err);
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind("warning: ", 0) != 0) said.push_back(line);
    }
    EXPECT_EQ(said.size(), 1U) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(words));
    for (const std::string& file : Files()) EXPECT_THAT(file, Not(HasSubstr("run")));
  }

 private:
  std::set<std::string> set_;
};

TEST_F(CudaCommandLineTest, RecordsOfEveryPolicyReplayDecisionsTheSame) {
  for (const char* policy :
       {"policy=vllm_v1 {max_num_seqs: 4 max_model_len: 128 async_scheduling: true}",
        "policy=vllm_v0 {max_model_len: 128 preemption_mode: swap}",
        "policy=sarathi {max_model_len: 128}", "policy=orca {max_model_len: 128}"}) {
    SCOPED_TRACE(policy);
    const CommandOutcome outcome =
        RunCuda("run", {policy, "system.memory={blocks_override: 12 swap_bytes: 100000}"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const json summary = SummaryOf("run");
    EXPECT_EQ(summary["completed"], 10);
    EXPECT_GT(summary["mean_step_gemm_ms"].get<double>(), 0);
    const CommandOutcome replayed = Run({"replay", "run"});
    EXPECT_EQ(replayed.exit_code, 0) << replayed.err;
    EXPECT_THAT(replayed.out, HasSubstr("decided  " + summary["digest"].get<std::string>()));
  }
}

TEST_F(CudaCommandLineTest, TheCacheTakesWhatTheLoadedModelLeavesAndSimulatesAlike) {
  Set("TWIN_EMULATED_MIB", "128");
  std::string text = kExperiment;
  text.replace(text.find("blocks_override: 60"), 19, "utilization: 0.75");
  Write("cuda.textproto", text);
  const CommandOutcome outcome = RunCuda("run");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto blocks = SummaryOf("run")["kv_blocks"].get<std::int64_t>();
  // A block is 16 tokens x 2 layers x 2 x 2 heads x 8 dimensions x 2 bytes = 2048 bytes. Three
  // quarters of 128 MiB would be 49152; weights and workspaces (32 MiB of cuBLASLt's) come off.
  EXPECT_LT(blocks, 49152 - (32 << 20) / 2048);
  EXPECT_GT(blocks, 1000);
  const CommandOutcome simulated =
      Run({"run", "run/config.resolved.textproto", "--set", "world=simulated {}", "--out", "sim"});
  ASSERT_EQ(simulated.exit_code, 0) << simulated.err;
  EXPECT_EQ(SummaryOf("sim")["kv_blocks"], blocks);
  // Half of it.
  ASSERT_EQ(RunCuda("half", {"system.memory.utilization=0.5"}).exit_code, 0);
  EXPECT_EQ(SummaryOf("half")["kv_blocks"], blocks - 49152 / 3);
}

TEST_F(CudaCommandLineTest, GeneratesTheReferenceTokens) {
  const std::string model = std::string(TWIN_SOURCE_DIR) + "/tests/golden/models/tiny-llama";
  const testing::ReferenceModel reference = testing::ReadReference(model);
  std::string prompts;
  for (std::size_t i = 0; i < reference.prompts.size(); ++i) {
    prompts += json{{"prompt", i}, {"token_ids", reference.prompts[i].tokens}}.dump() + "\n";
  }
  Write("p.ndjson", prompts);
  const CommandOutcome outcome =
      Run({"generate", "--model", model, "--prompts", "p.ndjson", "--out", "g.ndjson", "--device",
           "cuda", "--max-new-tokens", "24"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const testing::ReferenceTolerance tolerance = reference.Tolerance(DType::kBf16);
  std::ifstream in(scratch_.File("g.ndjson"));
  std::size_t i = 0;
  for (std::string line; std::getline(in, line); ++i) {
    const json generated = json::parse(line);
    const std::vector<float> logits = generated.at("last_logits");
    EXPECT_LE(testing::RelativeDistance(logits, reference.prompts[i].last_logits),
              tolerance.logits);
    EXPECT_EQ(
        testing::FirstWrongToken(generated.at("greedy"), reference.prompts[i], tolerance.margin),
        -1);
  }
  EXPECT_EQ(i, reference.prompts.size());
}

TEST_F(CudaCommandLineTest, ModelsDividedOverRanksServeAsOne) {
  for (const char* devices : {"1", "2"}) {
    Set("TWIN_EMULATED_DEVICES", devices);
    const CommandOutcome outcome = RunCuda("run", {"system.tensor_parallel=2"});
    if (outcome.exit_code != 0) {
      // Several devices in one process need NCCL, which is nowhere here.
      EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr("NCCL"));
      continue;
    }
    EXPECT_EQ(SummaryOf("run")["completed"], 10);
  }
}

TEST_F(CudaCommandLineTest, LayersMayHaveWeightsOfFp8) {
  const std::string fp8 = "system.model_shape.weight_dtype=fp8";
  const CommandOutcome outcome = RunCuda("run", {fp8});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(SummaryOf("run")["completed"], 10);
  EXPECT_EQ(Run({"replay", "run"}).exit_code, 0);
  const CommandOutcome bench = Run({"bench", "--model", ".", "--dummy-weights", "--device", "cuda",
                                    "--dtype", "fp8", "--prefill", "16", "--decode", "3", "--batch",
                                    "1", "--context", "7", "--format", "json"});
  ASSERT_EQ(bench.exit_code, 0) << bench.err;
  EXPECT_EQ(json::parse(bench.out.substr(0, bench.out.find('\n'))).at("dtype"), "fp8");
  Write("p.ndjson", "{\"prompt\": 0, \"token_ids\": [1, 2, 3]}\n");
  const std::string model = std::string(TWIN_SOURCE_DIR) + "/tests/golden/models/tiny-llama";
  EXPECT_EQ(Run({"generate", "--model", model, "--prompts", "p.ndjson", "--out", "g.ndjson",
                 "--device", "cuda", "--dtype", "fp8", "--max-new-tokens", "4"})
                .exit_code,
            0);
  const CommandOutcome profile =
      Run({"profile", "--model", ".", "--dummy-weights", "--device", "cuda", "--quick", "--rounds",
           "1", "--batch-max", "4", "--tokens-max", "32", "--dtype", "fp8", "--out", "p.csv"});
  EXPECT_EQ(profile.exit_code, 0) << profile.err;
}

TEST_F(CudaCommandLineTest, Fp8MayBeSummedFast) {
  const std::string fp8 = "system.model_shape.weight_dtype=fp8";
  const std::string fast = "world.real.fp8_fast_accumulation=true";
  const CommandOutcome outcome = RunCuda("served", {fp8, fast});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(SummaryOf("served")["completed"], 10);
  ExpectRefusal(RunCuda("wide", {fast}), 2,
                "world.real.fp8_fast_accumulation: is for fp8 weights on cuda, and these are bf16");
  const std::vector<std::string> words = {
      "profile", "--model",  ".",   "--dummy-weights", "--device", "cuda",
      "--quick", "--rounds", "1",   "--batch-max",     "4",        "--tokens-max",
      "32",      "--dtype",  "fp8", "--out",           "p.csv",    "--fp8-fast-accumulation"};
  const CommandOutcome profile = Run(words);
  ASSERT_EQ(profile.exit_code, 0) << profile.err;
  // The profile says so, and goes on with nothing else.
  ExpectRefusal(Run({words.begin(), words.end() - 1}), 2, "fp8 with fast accumulation");
}

// Alone, and divided over ranks of one device, whose shares have their own scales.
TEST_F(CudaCommandLineTest, WeightsOfFp8AreWidenedWhereNothingMultipliesThem) {
  Set("TWIN_EMULATED_CAPABILITY", "80");
  const std::string fp8 = "system.model_shape.weight_dtype=fp8";
  for (const char* ranks : {"1", "2"}) {
    const std::string out = std::string("ranks") + ranks;
    const CommandOutcome outcome =
        RunCuda(out, {fp8, std::string("system.tensor_parallel=") + ranks});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(SummaryOf(out)["completed"], 10);
  }
  ExpectRefusal(RunCuda("fast", {fp8, "world.real.fp8_fast_accumulation=true"}), 2,
                "fp8_fast_accumulation: is for devices of compute capability 9.0");
}

TEST_F(CudaCommandLineTest, BenchMeasuresBothPhases) {
  const CommandOutcome outcome =
      Run({"bench", "--model", ".", "--dummy-weights", "--device", "cuda", "--prefill", "16",
           "--decode", "3", "--batch", "1,3", "--context", "7", "--format", "json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const json measured = json::parse(line);
    EXPECT_EQ(measured.at("device"), "cuda");
    EXPECT_EQ(measured.at("dtype"), "bf16");
    EXPECT_GT(measured.at("tokens_per_s").get<double>(), 0);
    EXPECT_GT(measured.at("device_ms").get<double>(), 0);
    EXPECT_GE(measured.at("step_ms").get<double>(), measured.at("device_ms").get<double>());
  }
  EXPECT_EQ(count, 3);
}

// The emulated device has the kernel for any shape alone.
TEST_F(CudaCommandLineTest, AKernelOfAttentionCanBeAskedFor) {
  const auto bench = [&](const char* device, const char* attention) {
    return Run({"bench", "--model", ".", "--dummy-weights", "--device", device, "--prefill", "4",
                "--decode", "0", "--format", "json", "--attention", attention});
  };
  EXPECT_EQ(bench("cuda", "generic").exit_code, 0);
  ExpectRefusal(bench("cuda", "fa2"), 2, "attention: \"fa2\" cannot be used: this build has no");
  ExpectRefusal(bench("cpu", "fa2"), 2, "--attention: is for device cuda, and this is cpu");
  ExpectRefusal(RunCuda("fa3", {"world.real.attention=fa3"}), 2,
                "attention: \"fa3\" cannot be used: this build has no");
}

TEST_F(CudaCommandLineTest, TimesOfKernelsAreForOneFormatOnCuda) {
  ExpectRefusal(Run({"bench", "--model", ".", "--dummy-weights", "--kernel-times", "k.csv"}), 2,
                "--kernel-times: is for --device cuda and one --dtype");
}

TEST_F(CudaCommandLineTest, ProfilesFitAndFitsPredict) {
  const CommandOutcome profile =
      Run({"profile", "--model", ".", "--dummy-weights", "--device", "cuda", "--quick", "--rounds",
           "1", "--batch-max", "8", "--tokens-max", "64", "--out", "p.csv"});
  ASSERT_EQ(profile.exit_code, 0) << profile.err;
  const run::ProfileHeader header = run::ReadProfile(scratch_.File("p.csv")).header;
  EXPECT_THAT(header.machine, HasSubstr("Emulated GPU"));
  EXPECT_THAT(header.machine, HasSubstr("cuBLASLt"));
  EXPECT_EQ(header.instruction_set, "sm_90");
  EXPECT_FALSE(header.decode_buckets.empty());
  const CommandOutcome fit = Run({"fit", "p.csv", "--out", "cost.textproto"});
  ASSERT_EQ(fit.exit_code, 0) << fit.err;
  EXPECT_THAT(ReadText(scratch_.File("cost.textproto")), HasSubstr("decode_buckets"));
  std::string text = kExperiment;
  text.replace(text.find("linear { base_s: 0.0001 }"), 25, "fitted { path: \"cost.textproto\" }");
  const std::size_t shape = text.find("  model_shape {");
  text.replace(shape, text.find("hardware:") - shape,
               "model: \"./config.json\" model_shape { weight_dtype: bf16 kv_dtype: bf16 }\n  ");
  Write("e.textproto", text);
  const CommandOutcome validation =
      Run({"validate", "e.textproto", "--repeats", "1", "--format", "json", "--out", "v"});
  ASSERT_EQ(validation.exit_code, 0) << validation.err;
  EXPECT_TRUE(json::parse(validation.out).at("digest_equal").get<bool>());
  // A CPU is not predicted by what a GPU took.
  ExpectRefusal(Run({"validate", "e.textproto", "--set", "world.real.device=CPU", "--out", "w"}), 2,
                "Emulated GPU");
  // Another device cannot go on with the file.
  Set("TWIN_EMULATED_CAPABILITY", "80");
  const CommandOutcome other =
      Run({"profile", "--model", ".", "--dummy-weights", "--device", "cuda", "--quick", "--rounds",
           "1", "--batch-max", "8", "--tokens-max", "64", "--out", "p.csv"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("p.csv: machine: the file was begun with"));
}

TEST_F(CudaCommandLineTest, DoctorTellsOfTheDeviceAndWhatItWouldCompute) {
  Set("TWIN_EMULATED_MIB", "36");
  const CommandOutcome outcome =
      Run({"doctor", "--device", "cuda", "--measure", "--format", "json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json cuda = json::parse(outcome.out).at("cuda");
  EXPECT_TRUE(cuda.at("usable").get<bool>());
  EXPECT_EQ(cuda.at("devices").size(), 1U);
  EXPECT_EQ(cuda.at("attention").at(0), "generic");
  EXPECT_EQ(cuda.at("libraries").size(), 2U);
  EXPECT_GT(cuda.at("ceilings").at("bf16_gemm").at("tflops").get<double>(), 0);
  EXPECT_GT(cuda.at("ceilings").at("copy").at("gb_per_s").get<double>(), 0);
}

TEST_F(CudaCommandLineTest, DoctorMeasuresHowSpeedDependsOnTheLoad) {
  Set("TWIN_EMULATED_MIB", "36");
  const CommandOutcome outcome = Run({"doctor", "--device", "cuda", "--measure", "state",
                                      "--measure-seconds", "0.03", "--format", "json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json state = json::parse(outcome.out).at("cuda").at("state");
  EXPECT_EQ(state.at("series").size(), 3U + 48 + 3);
  EXPECT_EQ(state.at("series").at(0).at("call_ms").size(),
            state.at("series").at(0).at("call_begin_ms").size());
  EXPECT_EQ(state.at("tiles").at(0).size(), 4U);
  EXPECT_FALSE(state.at("summary").empty());
  ExpectRefusal(Run({"doctor", "--measure", "state"}), 2, "needs --device cuda");
}

TEST_F(CudaCommandLineTest, RefusesWhatNoDeviceComputesWith) {
  const std::string no_fp16 =
      "is fp16, which a CUDA device does not compute with here; allowed: bf16, fp8, int4";
  ExpectRefusal(RunCuda("run", {"system.model_shape.weight_dtype=fp16"}), 2, no_fp16);
  ExpectRefusal(RunCuda("run", {"system.model_shape.kv_dtype=fp16"}), 2, "allowed: bf16");
  ExpectRefusal(RunCuda("run", {"policy=vllm_v0 {max_model_len: 128 preemption_mode: swap}",
                                "system.memory.swap_bytes=1000000000000000"}),
                2, "system.memory.swap_bytes");
  Write("p.ndjson", R"({"prompt": [1, 2]})"
                    "\n");
  ExpectRefusal(Run({"generate", "--model", ".", "--prompts", "p.ndjson", "--out", "g.ndjson",
                     "--device", "cuda", "--dtype", "fp16"}),
                2, no_fp16);
  ExpectRefusal(Run({"bench", "--model", ".", "--dummy-weights", "--device", "cuda", "--dtype",
                     "int8", "--format", "json"}),
                2, "allowed: bf16, fp8, int4");
}

TEST_F(CudaCommandLineTest, SaysInOneLineThatThereIsNoSuchDevice) {
  Set("TWIN_EMULATED_DEVICES", "0");
  ExpectRefusal(RunCuda("run"), 1, "no GPU: ");
  Set("TWIN_EMULATED_DEVICES", "1");
  Set("TWIN_EMULATED_CAPABILITY", "75");
  ExpectRefusal(RunCuda("run"), 2, "compute capability 7.5");
}

TEST_F(CudaCommandLineTest, SaysInOneLineThatMemoryIsShort) {
  // At load: 8 MiB do not hold cuBLASLt's workspace.
  Set("TWIN_EMULATED_MIB", "8");
  ExpectRefusal(RunCuda("run"), 1, "memory");
  // The cache: 20000 blocks of 2 KiB beside it.
  Set("TWIN_EMULATED_MIB", "64");
  ExpectRefusal(RunCuda("run", {"system.memory.blocks_override=20000"}), 1, "memory");
  // Nothing left for a cache.
  std::string text = kExperiment;
  text.replace(text.find("blocks_override: 60"), 19, "utilization: 0.1");
  Write("cuda.textproto", text);
  ExpectRefusal(RunCuda("run"), 2, "system.memory.utilization");
}

TEST_F(CudaCommandLineTest, AnErrorOfTheDeviceEndsTheRunInOneLine) {
  // Kernels of loading, of tuning and of steps; each comes to the same end.
  for (const char* number : {"1", "30", "100"}) {
    Set("TWIN_EMULATED_FAILURE",
        std::string("cudaLaunchKernelEx:") + number + ":" + kIllegalAddress);
    ExpectRefusal(RunCuda("run"), 1, "illegal");
  }
  // In the middle of serving.
  Set("TWIN_EMULATED_FAILURE", std::string("cudaGraphLaunch:3:") + kIllegalAddress);
  ExpectRefusal(RunCuda("run"), 1, "illegal");
  Set("TWIN_EMULATED_FAILURE", std::string("cudaMalloc:3:") + kNoMemory);
  ExpectRefusal(RunCuda("run"), 1, "memory");
}

}  // namespace
}  // namespace twin::apps
