// twinserve run in a real world: a small model on this machine's CPU. No expectation depends on how
// fast the machine is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <ostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "exec/model/model_config.h"
#include "tests/unit/apps/experiment_folder.h"
#include "tests/unit/exec/model_folder.h"

namespace twin::apps {
namespace {

using nlohmann::json;
using testing::CommandOutcome;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr const char* kRealExperiment = R"(schema_version: 1
name: "real"
seed: 3
world { real { threads: 2 dummy_weights: true } }
workload {
  requests: 20
  arrivals { kind: poisson rate: 2000 }
  shape {
    prompt { kind: uniform min: 1 max: 60 }
    output { kind: uniform min: 2 max: 12 }
  }
}
policy { vllm_v1 { max_num_batched_tokens: 64 max_num_seqs: 8 max_model_len: 128 } }
system {
  model_shape {
    name: "tiny" layers: 2 hidden: 32 intermediate: 48 query_heads: 4 kv_heads: 2 head_dim: 8
    vocab: 101 max_position: 128 weight_dtype: fp32 kv_dtype: fp32
  }
  hardware: "cpu-generic"
  memory { blocks_override: 60 }
}
cost { linear { base_s: 0.0001 } }
)";

class RealRunTest : public testing::ExperimentFolderTest {
 protected:
  RealRunTest() { Write("real.textproto", kRealExperiment); }

  // Runs the real experiment, which must succeed, and returns its summary.json.
  [[nodiscard]] json RunReal(const std::string& out,
                             const std::vector<std::string>& assignments = {}) const {
    const CommandOutcome outcome = Run(Arguments(out, assignments));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return SummaryOf(out);
  }

  [[nodiscard]] static std::vector<std::string> Arguments(
      const std::string& out, const std::vector<std::string>& assignments) {
    std::vector<std::string> arguments = {"run", "real.textproto", "--out", out};
    for (const std::string& assignment : assignments) {
      arguments.insert(arguments.end(), {"--set", assignment});
    }
    return arguments;
  }

  void ExpectEqualReplay(const std::string& run) const {
    const CommandOutcome replayed = Run({"replay", run});
    EXPECT_EQ(replayed.exit_code, 0) << replayed.err;
    EXPECT_THAT(replayed.out, HasSubstr("decided  " + SummaryOf(run)["digest"].get<std::string>()));
  }
};

TEST_F(RealRunTest, LeavesWhatASimulatedRunLeavesAndTheParts) {
  const json summary = RunReal("run");
  EXPECT_THAT(Files("run"),
              UnorderedElementsAre("config.resolved.textproto", "provenance.json", "summary.json",
                                   "requests.csv", "steps.csv", "series.csv", "record.pb",
                                   "trace.pftrace", "parts.csv"));
  EXPECT_EQ(summary["completed"], 20);
  EXPECT_EQ(summary["interrupted"], 0);
  EXPECT_EQ(summary["kv_blocks"], 59);  // without vLLM V1's null block
  EXPECT_GT(summary["simulated_seconds"].get<double>(), 0);
  for (const char* part : {"schedule", "build", "gemm", "attention", "other", "sampling"}) {
    EXPECT_GT(summary["mean_step_" + std::string(part) + "_ms"].get<double>(), 0) << part;
  }
  EXPECT_EQ(summary["mean_step_communication_ms"], 0);
}

TEST_F(RealRunTest, RecordsOfEveryPolicyReplayDecisionsTheSame) {
  for (const char* policy :
       {"policy=vllm_v1 {max_num_seqs: 4 max_model_len: 128 enable_prefix_caching: true "
        "async_scheduling: true}",
        "policy=vllm_v0 {max_model_len: 128 preemption_mode: swap}",
        "policy=sarathi {max_model_len: 128}", "policy=orca {max_model_len: 128}",
        "policy=splitfuse", "policy=static {max_batch_size: 4}"}) {
    SCOPED_TRACE(policy);
    const json summary =
        RunReal("run", {policy, "system.memory={blocks_override: 12 swap_bytes: 100000}"});
    EXPECT_EQ(summary["requests"], 20);
    ExpectEqualReplay("run");
  }
}

TEST_F(RealRunTest, ModelsWhoseLayersDifferServeAndReplayDecisionsTheSame) {
  for (const char* name : {"layered-deepseek-v3", "layered-gpt-oss", "layered-qwen3-next"}) {
    SCOPED_TRACE(name);
    std::string text = kRealExperiment;
    const std::size_t shape = text.find("  model_shape");
    text.replace(
        shape, text.find("  hardware") - shape,
        "  model: '" + std::string(TWIN_SOURCE_DIR) + "/tests/golden/models/" + name + "'\n");
    Write("real.textproto", text);
    // Twelve blocks of 16 tokens are too few for eight requests: some are computed again. Blocks of
    // latent vectors have 64 otherwise.
    const json summary =
        RunReal("run", {"system.memory.blocks_override=12", "system.memory.block_size=16",
                        "world.real.dummy_weights=false",
                        "policy.vllm_v1.scheduler_reserve_full_isl=false"});
    EXPECT_EQ(summary["completed"], 20);
    EXPECT_GT(summary["preemptions"], 0);
    ExpectEqualReplay("run");
  }
}

TEST_F(RealRunTest, AModelDividedOverRanksServesAsOne) {
  struct Grid {
    const char* tensor;
    const char* pipeline;
  };
  for (const Grid& grid : {Grid{"2", "1"}, Grid{"1", "2"}, Grid{"2", "2"}}) {
    SCOPED_TRACE(std::string(grid.tensor) + "x" + grid.pipeline);
    const json summary =
        RunReal("run", {std::string("system.tensor_parallel=") + grid.tensor,
                        std::string("system.pipeline_parallel=") + grid.pipeline,
                        "policy.vllm_v1.pipeline_parallel_size=2", "world.real.threads=1"});
    EXPECT_EQ(summary["completed"], 20);
    EXPECT_GT(summary["mean_step_communication_ms"].get<double>(), 0);
    ExpectEqualReplay("run");
  }
}

// Round robin: requests 0, 2, ... on replica 0.
TEST_F(RealRunTest, ReplicasBehindARouterServeAndReplay) {
  const json summary = RunReal("run", {"system.replicas=2", "world.real.threads=1"});
  EXPECT_EQ(summary["completed"], 20);
  EXPECT_EQ(summary["replicas"], 2);
  EXPECT_EQ(summary["requests_imbalance"], 1);
  ExpectEqualReplay("run");
  std::istringstream requests(ReadText(scratch_.File("run/requests.csv")));
  std::string line;
  std::getline(requests, line);
  while (std::getline(requests, line)) {
    EXPECT_EQ(line.back() - '0', std::stoi(line) % 2) << line;
  }
  std::istringstream parts(ReadText(scratch_.File("run/parts.csv")));
  std::getline(parts, line);
  EXPECT_TRUE(line.ends_with(",clocks_ms,replica")) << line;
  int rows = 0;
  while (std::getline(parts, line)) ++rows;
  EXPECT_EQ(rows, summary["steps"].get<int>());
  for (const char* router : {"LEAST_REQUESTS", "POWER_OF_TWO"}) {
    SCOPED_TRACE(router);
    EXPECT_EQ(RunReal("run", {"system.replicas=3", std::string("system.router.kind=") + router,
                              "world.real.threads=1"})["completed"],
              20);
    ExpectEqualReplay("run");
  }
}

// Tokens are compared in real_disaggregation_test.cc.
TEST_F(RealRunTest, ReplicasThatPrefillAndThoseThatDecodeServeAndReplay) {
  struct Pools {
    const char* prefill;
    const char* decode;
    const char* policy;
  };
  for (const Pools& pools :
       {Pools{"1", "1", "seed=3"}, Pools{"2", "1", "policy.vllm_v1.enable_prefix_caching=true"},
        Pools{"2", "2", "policy.vllm_v1.async_scheduling=true"}}) {
    SCOPED_TRACE(std::string(pools.prefill) + "+" + pools.decode);
    const json summary =
        RunReal("run", {std::string("system.disaggregation.prefill_replicas=") + pools.prefill,
                        std::string("system.disaggregation.decode_replicas=") + pools.decode,
                        "world.real.threads=1", pools.policy});
    EXPECT_EQ(summary["completed"], 20);
    EXPECT_EQ(summary["kv_transfers"], 20);  // all have more than one token
    EXPECT_GT(summary["kv_transfer_bytes"], 0);
    EXPECT_GT(summary["max_kv_transfer_ms"], 0);
    ExpectEqualReplay("run");
  }
}

// Device parts are decimal fractions of a millisecond in whole nanoseconds.
TEST_F(RealRunTest, PartsOfAStepAddUpToItsTime) {
  const json summary = RunReal("run");
  std::istringstream lines(ReadText(scratch_.File("run/parts.csv")));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line,
            "step,planned_s,started_s,finished_s,told_s,schedule_ms,build_ms,gemm_ms,attention_ms,"
            "communication_ms,other_ms,sampling_ms,delivery_ms,clocks_ms");
  int steps = 0;
  while (std::getline(lines, line)) {
    std::istringstream row(line);
    std::vector<double> cells;
    for (std::string cell; std::getline(row, cell, ',');) cells.push_back(std::stod(cell));
    ASSERT_EQ(cells.size(), 14U);
    EXPECT_EQ(cells[0], ++steps);
    const auto nanoseconds = [](double value, double unit) { return std::llround(value * unit); };
    long long device = 0;
    for (std::size_t part = 6; part < 12; ++part) device += nanoseconds(cells[part], 1e6);
    EXPECT_EQ(device, nanoseconds(cells[3], 1e9) - nanoseconds(cells[2], 1e9));
    EXPECT_EQ(cells[13], 0);  // clocks are modelled, not measured
    EXPECT_EQ(nanoseconds(cells[12], 1e6), nanoseconds(cells[4], 1e9) - nanoseconds(cells[3], 1e9));
  }
  EXPECT_EQ(steps, summary["steps"].get<int>());
}

// What depends on the machine is in the resolved config: it runs again, and simulates, with it.
TEST_F(RealRunTest, TheResolvedConfigRunsInBothWorldsWithTheSameCache) {
  const json real = RunReal("real", {"world.real.threads=0", "system.memory.utilization=0.0001",
                                     "system.memory={max_model_length: 4000 block_size: 8 "
                                     "non_framework_bytes: 0 kv_bytes_override: 200000}"});
  const std::string resolved = ReadText(scratch_.File("real/config.resolved.textproto"));
  EXPECT_THAT(resolved, HasSubstr("blocks_override: 97"));  // 200000 / (8 * 256)
  EXPECT_THAT(resolved, HasSubstr("max_model_length: 128"));
  EXPECT_THAT(resolved, Not(HasSubstr("kv_bytes_override")));
  EXPECT_THAT(resolved, Not(HasSubstr("threads: 0")));
  for (const char* world : {"world=simulated", "seed=3"}) {
    const CommandOutcome again =
        Run({"run", "real/config.resolved.textproto", "--out", "again", "--set", world});
    ASSERT_EQ(again.exit_code, 0) << again.err;
    EXPECT_EQ(SummaryOf("again")["kv_blocks"], real["kv_blocks"]);
    EXPECT_EQ(SummaryOf("again")["completed"], real["completed"]);
  }
}

TEST_F(RealRunTest, PartsComeWithTheRecord) {
  (void)RunReal("run", {"outputs.record=false"});
  EXPECT_THAT(Files("run"), Not(Contains("parts.csv")));
  EXPECT_TRUE(SummaryOf("run").contains("mean_step_gemm_ms"));
}

TEST_F(RealRunTest, ImpatientClientsAreCancelled) {
  const json summary = RunReal("run", {"world.real.client_timeout_s=1e-9"});
  EXPECT_EQ(summary["cancelled"], 20);
  EXPECT_EQ(summary["completed"], 0);
  ExpectEqualReplay("run");
}

// The only request comes in an hour, so the run does nothing but wait.
TEST_F(RealRunTest, AnInterruptEndsTheWaitForAnArrival) {
  Write("late.csv", "arrival_ns,prompt_tokens,output_tokens\n0,7,3\n3600000000000,7,3\n");
  testing::Command command(scratch_.path(),
                           Arguments("run", {"workload={trace {path: \"late.csv\"}}"}));
  std::error_code error;
  for (int i = 0; i < 3000; ++i) {
    std::string rows;
    for (const std::string& name : Files()) {
      if (name.starts_with("run.partial.")) {
        rows = name;
      }
    }
    if (!rows.empty() && std::filesystem::exists(scratch_.path() / rows / "parts.csv", error))
      break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  // From here on a signal ends the run, no longer the process.
  command.Signal(SIGINT);
  const CommandOutcome outcome = command.Wait();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("interrupted: "));
  EXPECT_EQ(SummaryOf("run")["interrupted"], 1);
  EXPECT_LE(SummaryOf("run")["completed"].get<int>(), 1);
  ExpectEqualReplay("run");
}

// Token 3 is the model's end of sequence, of 29 tokens; asked for 60, some answer has it.
TEST_F(RealRunTest, ServesAModelDirectory) {
  const exec::testing::ModelFolder folder("real_run");
  folder.WriteText("config.json", exec::testing::kLlamaConfig);
  const exec::ModelConfig model =
      exec::ParseModelConfig(exec::testing::kLlamaConfig, "config.json");
  folder.WriteWeights(exec::testing::RandomTensors(model, "model."));
  std::string text(kRealExperiment);
  const std::size_t shape = text.find("model_shape {");
  text.replace(shape, text.find("hardware:") - shape,
               "model: '" + folder.path().string() + "'\n  ");
  Write("real.textproto", text);
  const std::string output = "workload.shape.output={kind: fixed value: 60}";
  const json pinned = RunReal("pinned", {"world.real={}", output});
  EXPECT_EQ(pinned["total_output_tokens"], 20 * 60);
  const json free = RunReal("free", {"world.real={pin_output_lengths: false}", output});
  EXPECT_LT(free["total_output_tokens"].get<int>(), 20 * 60);
  ExpectEqualReplay("free");
  const CommandOutcome other =
      Run(Arguments("run", {"world.real={}", "system.model_shape.layers=1"}));
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("system.model_shape"));
}

std::string TinyLlama() { return TWIN_SOURCE_DIR "/tests/golden/models/tiny-llama"; }

// The model drafts for itself. Tokens are compared in real_world_test.cc.
TEST_F(RealRunTest, ADraftModelServesAndReplays) {
  std::string text(kRealExperiment);
  const std::size_t shape = text.find("model_shape {");
  text.replace(shape, text.find("hardware:") - shape, "model: '" + TinyLlama() + "'\n  ");
  text += "speculation { method: draft_model num_speculative_tokens: 3 model: '" + TinyLlama() +
          "' }\n";
  Write("real.textproto", text);
  const std::string v1 = "policy.vllm_v1.max_model_len=64";
  for (const std::string& set :
       {v1, std::string("policy=vllm_v0 {max_model_len: 64}"),
        std::string("policy=trtllm {max_seq_len: 64}"), std::string("system.replicas=2")}) {
    SCOPED_TRACE(set);
    const json summary = RunReal("run", {"world.real={threads: 1}", v1, set});
    EXPECT_EQ(summary["completed"].get<int>() + summary["rejected"].get<int>(), 20);
    EXPECT_GT(summary["spec_decode_draft_tokens"], 0);
    EXPECT_EQ(summary["spec_decode_acceptance_rate"], 1);
    ExpectEqualReplay("run");
  }
  EXPECT_THAT(ReadText(scratch_.File("run/provenance.json")), HasSubstr("draft_weights"));
}

TEST_F(RealRunTest, ServesAMixtureOfExperts) {
  const json summary =
      RunReal("mixture", {"system.model_shape.moe={experts: 4 experts_per_token: 2 "
                          "expert_intermediate: 8 shared_intermediate: 12}"});
  EXPECT_EQ(summary["completed"], 20);
  ExpectEqualReplay("mixture");
}

struct Refusal {
  std::string name;
  std::vector<std::string> assignments;
  std::vector<std::string> says;
};

void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

class RealRunRefusalTest : public RealRunTest, public ::testing::WithParamInterface<Refusal> {};

TEST_P(RealRunRefusalTest, SaysOneLineAndLeavesNothing) {
  const CommandOutcome outcome = Run(Arguments("run", GetParam().assignments));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
  for (const std::string& word : GetParam().says) EXPECT_THAT(outcome.err, HasSubstr(word));
  EXPECT_THAT(Files(), UnorderedElementsAre("real.textproto", "small.textproto"));
}

INSTANTIATE_TEST_SUITE_P(
    Inputs, RealRunRefusalTest,
    ::testing::Values(
        Refusal{"HeadsThatDoNotDivide",
                {"system.tensor_parallel=3"},
                {"query_heads 4 does not divide by tensor parallelism 3"}},
        Refusal{"MoreStagesThanLayers",
                {"system.pipeline_parallel=3"},
                {"pipeline parallelism 3 exceeds its 2 layers"}},
        Refusal{"NoWeights",
                {"world.real.dummy_weights=false"},
                {"system.model", "without weights", "dummy_weights: true"}},
        Refusal{"WeightFormat",
                {"system.model_shape.weight_dtype=fp8"},
                {"weight_dtype", "fp8", "fp32, bf16, int8"}},
        Refusal{"FastAccumulationOnACpu",
                {"world.real.fp8_fast_accumulation=true"},
                {"world.real.fp8_fast_accumulation", "fp8 weights on cuda", "fp32 on cpu"}},
        Refusal{"AttentionOfACpu",
                {"world.real.attention=fa2"},
                {"world.real.attention", "is for device cuda, and this is cpu"}},
        Refusal{"CacheFormat",
                {"system.model_shape.kv_dtype=fp16"},
                {"kv_dtype", "fp16", "fp32, bf16"}},
        Refusal{"CacheTooSmallForOneRequest",
                {"system.memory.blocks_override=3"},
                {"system.memory", "128 tokens does not fit into 3 blocks"}},
        Refusal{"CacheThatDoesNotFit",
                {"system.memory.blocks_override=100000000", "system.model_shape.layers=2000"},
                {"system.memory", "needs", "available"}},
        // 2 layers of 2^20 x 2^20 matrices, several of them: terabytes.
        Refusal{"ModelThatDoesNotFit",
                {"system.model_shape.hidden=1048576", "system.model_shape.intermediate=1048576"},
                {"system.memory", "needs", "available"}},
        Refusal{"DraftsWithoutTheirModel",
                {"speculation={method: draft_model num_speculative_tokens: 2}"},
                {"speculation.model: is missing", "allowed: a model directory"}},
        Refusal{
            "DraftModelWithoutWeights",
            {"world.real.dummy_weights=false", "system.model='" + TinyLlama() + "'",
             "system.model_shape={weight_dtype: fp32}", "policy.vllm_v1.max_model_len=64",
             "speculation={method: draft_model num_speculative_tokens: 2 model: 'gpt2'}"},
            {"speculation.model: gpt2 is a preset, without weights", "allowed: a model directory"}},
        Refusal{"DraftModelOfAnotherVocabulary",
                {"speculation={method: draft_model num_speculative_tokens: 2 model: '" +
                 TinyLlama() + "'}"},
                {"speculation.model: has a vocabulary of 19 tokens, but that of system.model has "
                 "101"}},
        Refusal{"DraftsOfAGrid",
                {"system.tensor_parallel=2",
                 "speculation={method: draft_model "
                 "num_speculative_tokens: 2 model: '" +
                     TinyLlama() + "'}"},
                {"speculation.num_speculative_tokens", "world.real.device cpu with one rank"}},
        Refusal{"DraftsOfAHead",
                {"speculation={method: eagle num_speculative_tokens: 2}"},
                {"speculation.method: is eagle", "allowed: ngram, draft_model"}},
        Refusal{"SwapsWithoutHostBlocks",
                {"policy=vllm_v0 {max_model_len: 128 preemption_mode: swap}",
                 "system.memory.swap_bytes=0"},
                {"system.memory.swap_bytes"}}),
    [](const auto& refusal) { return refusal.param.name; });

}  // namespace
}  // namespace twin::apps
