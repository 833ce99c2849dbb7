// Runs as library calls: without a process, a folder or a global.
#include "run/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "core/input_error.h"
#include "run/config_warnings.h"
#include "run/files/record_file.h"
#include "run/replay.h"
#include "sched/policy/registry.h"
#include "tests/support/unique_name.h"

namespace twin::run {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A small model on a small device: 16 tokens x 2 layers x 2 (K, V) x 2 heads x 8 x 2 bytes = 2,048
// bytes a block, 64 blocks.
ExperimentConfig Experiment(const std::string& more = "") {
  return ParseExperiment(
      "workload { requests: 200 arrivals { kind: poisson rate: 40 } shape { "
      "prompt { kind: uniform min: 4 max: 60 } output { kind: uniform min: 1 max: 30 } } } "
      "system { hardware: 'cpu-generic' model_shape { layers: 2 hidden: 32 intermediate: 48 "
      "query_heads: 4 kv_heads: 2 head_dim: 8 vocab: 101 max_position: 128 weight_dtype: fp32 "
      "kv_dtype: bf16 } memory { blocks_override: 64 } } cost { constant { step_s: 0.01 } } "
      "policy { vllm_v1 { max_model_len: 128 } }" +
          more,
      "test", "/");
}

class Reports final : public RunControl {
 public:
  void OnWarning(const std::string& text) override { warnings.push_back(text); }
  [[nodiscard]] bool StopRequested() const override { return stop; }
  std::vector<std::string> warnings;
  bool stop = false;
};

std::string DigestOf(const RunOutcome& outcome) {
  return std::get<std::string>(*outcome.summary.Find("digest"));
}

TEST(ResolveTest, HoldsWhatARunNeeds) {
  const Deployment deployment = Resolve(Experiment());
  EXPECT_EQ(deployment.traits.name, "vllm_v1");
  EXPECT_EQ(deployment.context_tokens_max, 128);  // the model's positions
  EXPECT_EQ(deployment.capacity.blocks, 64);
  EXPECT_EQ(deployment.engine.kv.blocks, 63);  // vLLM V1 keeps a null block
  EXPECT_EQ(deployment.engine.kv.block_size, 16);
  EXPECT_EQ(deployment.world.max_model_length, 128);
  EXPECT_NE(deployment.cost, nullptr);
  EXPECT_THAT(WarningsOf(deployment), ElementsAre());
}

// A policy that allows 4,096 tokens used to let requests run beyond the positions of the model.
TEST(ResolveTest, NoRequestIsLongerThanTheModelHasPositions) {
  ExperimentConfig config = Experiment();
  config.policy.Get<VllmV1Config>().max_model_len = 4096;
  config.system.memory.max_model_length = 4096;
  EXPECT_EQ(ContextTokensMax(config), 128);
}

TEST(ResolveTest, WarnsOfStagesThatWillIdle) {
  ExperimentConfig config = Experiment();
  config.policy = StaticConfig{};  // one step in flight
  config.system.parallelism.pipeline = 2;
  const Deployment deployment = Resolve(config);
  EXPECT_THAT(WarningsOf(deployment), ElementsAre(HasSubstr("stages will idle")));
}

TEST(SimulateTest, WithAndWithoutAFolderIsTheSameRun) {
  const std::filesystem::path folder = testing::UniqueName("simulate");
  RunControl control;
  const RunOutcome written = RunSimulation(Experiment(), folder, {}, control);
  const RunOutcome unwritten = Simulate(Resolve(Experiment()), control);
  EXPECT_EQ(DigestOf(unwritten), DigestOf(written));
  EXPECT_EQ(unwritten.summary.Number("mean_ttft_ms"), written.summary.Number("mean_ttft_ms"));
  EXPECT_EQ(unwritten.summary.Number("completed"), 200);
  std::filesystem::remove_all(folder);
}

// Prompts have 4 to 60 tokens: those above 32 can never be served.
TEST(RunSimulationTest, WarnsOnceOfRejectedRequestsWithTheirReason) {
  ExperimentConfig config = Experiment();
  config.policy.Get<VllmV1Config>().max_model_len = 32;
  const std::filesystem::path folder = testing::UniqueName("simulate");
  Reports control;
  const RunOutcome outcome = RunSimulation(config, folder, {}, control);
  std::filesystem::remove_all(folder);
  EXPECT_GT(outcome.summary.Number("rejected"), 0);
  EXPECT_THAT(control.warnings, ::testing::Contains(HasSubstr("requests were rejected")));
}

// Eight requests at once on eight stages of 10 ms each, 30 tokens each. vLLM V1 has them in one
// step, which uses one slot of eight. Ship has a step for each, eight in flight until the first one
// ends after 30 turns of 80 ms, and then 7, 6, ... 1 for 10 ms each: (8 * 2400 + 280) / (8 * 2470).
TEST(RunSimulationTest, WarnsOfAPolicyThatLeavesSlotsOfAPipelineUnused) {
  const auto run = [](const std::string& policy, Reports& control) {
    ExperimentConfig config = ParseExperiment(
        "workload { requests: 8 arrivals { kind: closed_loop users: 8 } shape { "
        "prompt { kind: fixed value: 4 } output { kind: fixed value: 30 } } } "
        "system { hardware: 'cpu-generic' pipeline_parallel: 8 model_shape { layers: 8 hidden: 32 "
        "intermediate: 48 query_heads: 4 kv_heads: 2 head_dim: 8 vocab: 101 max_position: 128 "
        "weight_dtype: fp32 kv_dtype: bf16 } memory { blocks_override: 64 } } "
        "cost { constant { step_s: 0.08 } } policy { " +
            policy + " { pipeline_parallel_size: 8 } }",
        "test", "/");
    const std::filesystem::path folder = testing::UniqueName("simulate");
    const RunOutcome outcome = RunSimulation(config, folder, {}, control);
    std::filesystem::remove_all(folder);
    return outcome.summary;
  };
  Reports together;
  const Summary one = run("vllm_v1", together);
  EXPECT_NEAR(one.Number("pipeline_slots_used_share"), 1.0 / 8, 1e-9);
  EXPECT_THAT(together.warnings,
              ::testing::Contains(HasSubstr("pipeline_slots_used_share is 0.12")));
  Reports apart;
  const Summary all = run("ship", apart);
  EXPECT_NEAR(all.Number("pipeline_slots_used_share"), 19480.0 / 19760, 1e-9);
  EXPECT_THAT(apart.warnings, Not(::testing::Contains(HasSubstr("pipeline_slots_used_share"))));
  EXPECT_EQ(all.Number("mean_tpot_ms"), one.Number("mean_tpot_ms")) << "of steps of equal times";
  RunControl control;
  EXPECT_EQ(Simulate(Resolve(Experiment()), control).summary.Find("pipeline_slots_used_share"),
            nullptr)
      << "no pipeline";
}

// What a study does: many runs at once, of one Deployment or of several.
TEST(SimulateTest, RunsOnSeveralThreadsAreIndependent) {
  const Deployment deployment = Resolve(Experiment());
  RunControl control;
  const std::string expected = DigestOf(Simulate(deployment, control));
  std::vector<std::string> digests(4);
  {
    std::vector<std::jthread> threads;
    for (std::string& digest : digests) {
      threads.emplace_back([&] {
        RunControl own;
        digest = DigestOf(Simulate(deployment, own));
      });
    }
  }
  EXPECT_THAT(digests, ElementsAre(expected, expected, expected, expected));
}

// 4 drafts at 0.8: 0.8 + 0.64 + 0.512 + 0.4096 = 2.3616 are accepted, 0.5904 of them. The standard
// deviation of one item is below 1.7, that of the mean over more than 600 of them below 0.07.
TEST(SimulateTest, SpeculatesAsTheExperimentSays) {
  const ExperimentConfig config =
      Experiment(" speculation { num_speculative_tokens: 4 acceptance_rates: 0.8 }");
  RunControl control;
  const RunOutcome drafted = Simulate(Resolve(config), control);
  EXPECT_EQ(drafted.summary.Number("completed"), 200);
  EXPECT_GT(drafted.summary.Number("spec_decode_num_drafts"), 600);
  EXPECT_NEAR(drafted.summary.Number("spec_decode_acceptance_length"), 3.3616, 0.25);
  EXPECT_NEAR(drafted.summary.Number("spec_decode_acceptance_rate"), 0.5904, 0.06);
  const RunOutcome plain = Simulate(Resolve(Experiment()), control);
  EXPECT_LT(drafted.summary.Number("mean_e2el_ms"), plain.summary.Number("mean_e2el_ms"));
  EXPECT_EQ(plain.summary.Find("spec_decode_num_drafts"), nullptr);
  // No drafts are those of an experiment that does not speculate.
  const RunOutcome none =
      Simulate(Resolve(Experiment(" speculation { num_speculative_tokens: 0 }")), control);
  EXPECT_EQ(DigestOf(none), DigestOf(plain));
}

TEST(SimulateTest, RecordsOfDraftsReplay) {
  ExperimentConfig config = Experiment(
      " speculation { num_speculative_tokens: 3 acceptance_rates: [0.9, 0.5] proposal_rate: 0.8 }");
  const PolicyConfig policies[] = {config.policy, VllmV0Config{.max_model_len = 128},
                                   TrtllmConfig{.max_seq_len = 128}};
  for (const PolicyConfig& policy : policies) {
    config.policy = policy;
    ASSERT_TRUE(SetSpeculation(config.policy, config.speculation->rules));
    const std::filesystem::path folder = testing::UniqueName("simulate");
    RunControl control;
    const RunOutcome outcome = RunSimulation(config, folder, {}, control);
    EXPECT_EQ(outcome.summary.Number("completed"), 200);
    EXPECT_GT(outcome.summary.Number("spec_decode_acceptance_length"), 1.5);
    const Deployment deployment = Resolve(config);
    RecordReader reader(folder / "record.pb");
    const ReplayResult replayed =
        ReplayDecisions(reader, deployment.config.policy, deployment.engine);
    EXPECT_FALSE(replayed.difference);
    EXPECT_EQ(replayed.digest_text, DigestOf(outcome));
    std::filesystem::remove_all(folder);
  }
}

TEST(ResolveTest, RefusesDraftsThatNoPolicyVerifies) {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      Resolve(ParseExperiment(text, "test", "/"));
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const std::string system =
      "workload { requests: 1 arrivals { kind: poisson rate: 1 } shape { prompt { kind: fixed "
      "value: 9 } output { kind: fixed value: 9 } } } "
      "system { hardware: 'h100-sxm' model: 'llama-3-8b' } ";
  EXPECT_THAT(refusal(system + "policy { orca {} } speculation { num_speculative_tokens: 2 }"),
              HasSubstr("speculation.num_speculative_tokens"));
  EXPECT_THAT(
      refusal(system + "policy { vllm_v1 {} } speculation { num_speculative_tokens: 2 method: "
                       "draft_model model: 'llama-3.2-1b' } cost { constant { step_s: 0.01 } }"),
      HasSubstr("speculation.model"));
}

// 3 drafts at 0.8: 1 + 0.8 + 0.64 + 0.512 = 2.952 tokens a step.
TEST(SimulateTest, AnAcceptanceLengthGivesTheRateOfAllDrafts) {
  const ExperimentConfig config =
      Experiment(" speculation { num_speculative_tokens: 3 acceptance_length: 2.952 }");
  ASSERT_EQ(config.speculation->acceptance.rates.size(), 1U);
  EXPECT_NEAR(config.speculation->acceptance.rates[0], 0.8, 1e-9);
}

// A rank holds of DeepSeek-V3's module, in GB: an eighth of 256 experts in fp8, 1.409, and of the
// shared one, 0.006; attention, 0.038; the product of 2 x 7168 x 7168 numbers of 16 bits, 0.206.
// Its layer caches 576 numbers of 16 bits a token.
TEST(ResolveTest, TheModuleOfMultiTokenPredictionTakesMemory) {
  const std::string text =
      "workload { requests: 1 arrivals { kind: poisson rate: 1 } shape { prompt { kind: fixed "
      "value: 9 } output { kind: fixed value: 9 } } } system { hardware: 'b200' model: "
      "'deepseek-v3' tensor_parallel: 8 } policy { vllm_v1 {} } cost { constant { step_s: 0.01 } "
      "} ";
  const auto capacity = [&](const std::string& more) {
    return Resolve(ParseExperiment(text + more, "test", "/")).capacity;
  };
  const sim::KvCapacity plain = capacity("");
  const sim::KvCapacity drafting = capacity(
      "speculation { method: mtp num_speculative_tokens: 1 acceptance_length: 1.8 propose_s: "
      "0.001 }");
  EXPECT_EQ(drafting.block_bytes / drafting.block_size - plain.block_bytes / plain.block_size,
            1152);
  const auto module = static_cast<double>(drafting.weight_bytes - plain.weight_bytes);
  EXPECT_NEAR(module, 1.66e9, 0.01e9);
}

TEST(ResolveTest, RefusesWrongMultiTokenPredictionInOneLine) {
  const auto refusal = [](const std::string& model, const std::string& speculation) -> std::string {
    try {
      Resolve(ParseExperiment(
          "workload { requests: 1 arrivals { kind: poisson rate: 1 } shape { prompt { kind: fixed "
          "value: 9 } output { kind: fixed value: 9 } } } system { hardware: 'b200' model: '" +
              model +
              "' tensor_parallel: 8 } policy { vllm_v1 {} } cost { constant { step_s: 0.01 } } " +
              "speculation { num_speculative_tokens: 2 " + speculation + " }",
          "test", "/"));
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal("llama-3-8b", "method: mtp"), HasSubstr("no module of multi-token"));
  EXPECT_THAT(refusal("deepseek-v3", "method: mtp"),
              HasSubstr("speculation.acceptance_length: is missing"));
  EXPECT_THAT(refusal("deepseek-v3", "method: mtp acceptance_length: 1.5"),
              HasSubstr("speculation.method: has no cost"));
  EXPECT_THAT(refusal("llama-3-8b", "acceptance_length: 3.1"), HasSubstr("at most 1 + "));
  EXPECT_THAT(refusal("llama-3-8b", "acceptance_length: 2 acceptance_rates: 0.5"),
              HasSubstr("allowed: one of them"));
  EXPECT_THAT(refusal("glm-5.2-fp8", "method: mtp propose_s: 0.001"),
              Not(HasSubstr("speculation")));
}

TEST(SimulateTest, TheCallerEndsARunEarly) {
  Reports control;
  control.stop = true;
  // More than 4,096 instants, at which the run looks up for the first time.
  ExperimentConfig config = Experiment();
  config.workload.requests = 1'000'000;
  const RunOutcome outcome = Simulate(Resolve(config), control);
  EXPECT_TRUE(outcome.interrupted);
  EXPECT_LT(outcome.summary.Number("completed"), 1'000'000);
}

// Time passes by the clock, but everything happens at the same times of the engine: the 200
// requests take about 5 s of these.
TEST(SimulateTest, AnEmulatedRunDecidesAsASimulatedOne) {
  RunControl control;
  const std::string simulated = DigestOf(Simulate(Resolve(Experiment()), control));
  const RunOutcome emulated =
      Simulate(Resolve(Experiment("world { emulated { speed: 100 } }")), control);
  EXPECT_EQ(DigestOf(emulated), simulated);
  EXPECT_NE(emulated.summary.Find("late_steps"), nullptr);
  EXPECT_GT(emulated.summary.Number("max_lateness_us"), 0);
}

TEST(SimulateTest, AnEmulatedRunCanBeEndedWhileItWaits) {
  Reports control;
  control.stop = true;
  // A thousand times slower than time: more than an hour.
  const RunOutcome outcome =
      Simulate(Resolve(Experiment("world { emulated { speed: 0.001 } }")), control);
  EXPECT_TRUE(outcome.interrupted);
}

}  // namespace
}  // namespace twin::run
