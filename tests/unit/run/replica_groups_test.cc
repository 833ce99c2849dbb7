// Simulations whose replicas differ.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/input_error.h"
#include "run/config_warnings.h"
#include "run/files/record_file.h"
#include "run/real/real_system.h"
#include "run/replay.h"
#include "run/simulation.h"
#include "sched/policy/vllm_v1.h"
#include "sim/devices/profile_config.h"
#include "tests/support/unique_name.h"

namespace twin::run {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kBusy =
    "workload { requests: 200 arrivals { kind: poisson rate: 40 } shape { "
    "prompt { kind: uniform min: 4 max: 40 } output { kind: uniform min: 1 max: 20 } "
    "shared_prefix { prompts: 3 tokens: 16 } } } ";
// One request after the other, a second apart, of 5 tokens behind a prompt of 8.
constexpr const char* kSpaced =
    "workload { requests: 10 arrivals { kind: constant rate: 1 } shape { "
    "prompt { kind: fixed value: 8 } output { kind: fixed value: 5 } } } ";

// Steps of 20 ms, and caches of 40 blocks of 16 tokens, where groups say nothing else.
std::string Text(const std::string& workload, const std::string& system) {
  return workload +
         "system { hardware: 'cpu-generic' model_shape { layers: 2 hidden: 32 intermediate: 48 "
         "query_heads: 4 kv_heads: 2 head_dim: 8 vocab: 101 max_position: 128 weight_dtype: fp32 "
         "kv_dtype: bf16 } memory { blocks_override: 40 } " +
         system +
         "} cost { constant { step_s: 0.02 } } policy { vllm_v1 { max_model_len: 128 "
         "enable_prefix_caching: true async_scheduling: false } }";
}

ExperimentConfig Experiment(const std::string& workload, const std::string& system) {
  return ParseExperiment(Text(workload, system), "test", "/");
}

Summary Simulated(const ExperimentConfig& config) {
  RunControl control;
  return Simulate(Resolve(config), control).summary;
}

std::string DigestOf(const Summary& summary) {
  return std::get<std::string>(*summary.Find("digest"));
}

class EqualGroupsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(EqualGroupsTest, DecideAsEqualReplicas) {
  const std::string router = "router { kind: " + std::string(GetParam()) + " } ";
  const Summary groups = Simulated(
      Experiment(kBusy, router + "replica_groups { count: 1 } replica_groups { count: 3 } "));
  const Summary replicas = Simulated(Experiment(kBusy, router + "replicas: 4 "));
  EXPECT_EQ(DigestOf(groups), DigestOf(replicas));
  for (const char* const metric :
       {"completed", "mean_e2el_ms", "busy_share", "max_kv_used_share", "requests_imbalance"}) {
    EXPECT_EQ(groups.Number(metric), replicas.Number(metric)) << metric;
  }
}

INSTANTIATE_TEST_SUITE_P(Routers, EqualGroupsTest,
                         ::testing::Values("ROUND_ROBIN", "LEAST_REQUESTS", "LEAST_KV",
                                           "KV_OVERLAP"),
                         [](const auto& test) { return std::string(test.param); });

TEST(ReplicaGroupsTest, EqualPoolsDecideAsDisaggregatedReplicas) {
  const std::string groups =
      "disaggregation {} replica_groups { count: 2 role: prefill } "
      "replica_groups { count: 3 role: decode } ";
  const std::string pools = "disaggregation { prefill_replicas: 2 decode_replicas: 3 } ";
  EXPECT_EQ(DigestOf(Simulated(Experiment(kBusy, groups))),
            DigestOf(Simulated(Experiment(kBusy, pools))));
}

TEST(ReplicaGroupsTest, AGroupOfOneDecidesAsAnEngineAlone) {
  EXPECT_EQ(DigestOf(Simulated(Experiment(kBusy, "replica_groups {} "))),
            DigestOf(Simulated(Experiment(kBusy, ""))));
}

// Requests alternate between steps of 20 and of 50 ms: 5 * 20 = 100 and 5 * 50 = 250 ms each. The
// last one arrives 9 s after the first one and ends 0.25 s later. The caches have 9 and 24 blocks,
// of which vLLM keeps one back, and a request holds one.
TEST(ReplicaGroupsTest, EachGroupHasItsOwnStepsAndMemory) {
  const Summary summary =
      Simulated(Experiment(kSpaced,
                           "replica_groups { memory { blocks_override: 9 } } "
                           "replica_groups { cost { constant { step_s: 0.05 } } "
                           "memory { blocks_override: 24 } } "));
  EXPECT_EQ(summary.Number("completed"), 10);
  for (const char* const group : {"group_0_", "group_1_"}) {
    EXPECT_EQ(summary.Number(std::string(group) + "completed"), 5);
    EXPECT_EQ(summary.Number(std::string(group) + "replicas"), 1);
    EXPECT_EQ(summary.Number(std::string(group) + "steps"), 25);
    EXPECT_EQ(summary.Number(std::string(group) + "computed_prefill_tokens"), 40);
    EXPECT_EQ(summary.Number(std::string(group) + "computed_decode_tokens"), 20);
  }
  EXPECT_NEAR(summary.Number("group_0_mean_e2el_ms"), 100, 1e-6);
  EXPECT_NEAR(summary.Number("group_1_mean_e2el_ms"), 250, 1e-6);
  EXPECT_NEAR(summary.Number("group_0_busy_share"), 0.5 / 9.25, 1e-9);
  EXPECT_NEAR(summary.Number("group_1_busy_share"), 1.25 / 9.25, 1e-9);
  EXPECT_EQ(summary.Number("group_0_kv_blocks"), 8);
  EXPECT_EQ(summary.Number("group_1_kv_blocks"), 23);
  EXPECT_NEAR(summary.Number("max_kv_used_share"), 1.0 / 31, 1e-9);
}

// The prompt takes 10 ms, each of the 4 other tokens 30 ms, and the copy no time.
TEST(ReplicaGroupsTest, PrefillAndDecodeCanDiffer) {
  const Summary summary = Simulated(
      Experiment(kSpaced,
                 "disaggregation { link { latency_us: 0 bandwidth_gbps: 0 } } "
                 "replica_groups { role: prefill cost { constant { step_s: 0.01 } } } "
                 "replica_groups { count: 2 role: decode cost { constant { step_s: 0.03 } } } "));
  EXPECT_NEAR(summary.Number("mean_ttft_ms"), 10, 1e-6);
  EXPECT_NEAR(summary.Number("mean_tpot_ms"), 30, 1e-6);
  EXPECT_EQ(summary.Number("group_0_computed_prefill_tokens"), 80);
  EXPECT_EQ(summary.Number("group_0_computed_decode_tokens"), 0);
  EXPECT_EQ(summary.Number("group_0_completed"), 0);
  EXPECT_EQ(summary.Number("group_1_completed"), 10);
  EXPECT_EQ(summary.Number("group_1_computed_decode_tokens"), 40);
}

// Tensor parallelism halves the weights and the keys and values of a rank; the budget of a step is
// the group's own.
TEST(ReplicaGroupsTest, HardwareParallelismAndPolicyAreTheGroups) {
  const ExperimentConfig config = ParseExperiment(
      "workload { requests: 20 arrivals { kind: poisson rate: 5 } shape { prompt { kind: fixed "
      "value: 500 } output { kind: fixed value: 20 } } } policy { vllm_v1 {} } "
      "system { model: 'llama-2-7b' hardware: 'h100-sxm' hardware_spec { memory_bytes: 60000000000 "
      "} replica_groups { count: 2 } replica_groups { hardware: 'a100-80gb-sxm' tensor_parallel: 2 "
      "policy { vllm_v1 { max_num_batched_tokens: 300 } } } } cost { profile {} }",
      "test", "/");
  const Deployment deployment = Resolve(config);
  ASSERT_EQ(deployment.groups.size(), 2u);
  const Deployment& first = deployment.groups[0];
  const Deployment& second = deployment.groups[1];
  EXPECT_EQ(deployment.config.system.replicas, 3);
  EXPECT_EQ(first.config.system.hardware_spec.memory_bytes, 60'000'000'000);
  EXPECT_GT(second.config.system.hardware_spec.memory_bytes, 79'000'000'000);
  EXPECT_EQ(second.config.system.parallelism.tensor, 2);
  EXPECT_EQ(first.capacity.block_bytes, 2 * second.capacity.block_bytes);
  EXPECT_EQ(first.traits.tokens_per_step_max, 2048);
  EXPECT_EQ(second.traits.tokens_per_step_max, 300);
  EXPECT_EQ(second.config.system.memory.max_step_tokens, 300);
  EXPECT_EQ(first.config.cost.Get<sim::ProfileCostConfig>().profile, "h100-sxm");
  EXPECT_EQ(second.config.cost.Get<sim::ProfileCostConfig>().profile, "a100-80gb-sxm");
  RunControl control;
  EXPECT_EQ(Simulate(deployment, control).summary.Number("completed"), 20);
}

TEST(ReplicaGroupsTest, TheResolvedExperimentResolvesToItself) {
  const ExperimentConfig config = Resolve(Experiment(kBusy,
                                                     "disaggregation {} replica_groups { count: 2 "
                                                     "role: prefill memory { utilization: 0.5 } } "
                                                     "replica_groups { role: decode hardware: "
                                                     "'a30' } "))
                                      .config;
  const std::string text = WriteResolved(config);
  const ExperimentConfig again = ParseExperiment(text, "test", "/");
  EXPECT_EQ(WriteResolved(again), text);
  EXPECT_EQ(WriteResolved(Resolve(again).config), text);
  EXPECT_TRUE(again.system.groups[0].memory.utilization.has_value());
  EXPECT_FALSE(again.system.groups[1].memory.utilization.has_value());
}

TEST(ReplicaGroupsTest, TheirRecordReplays) {
  for (const std::string pools : {"", "disaggregation {} "}) {
    const auto role = [&](const char* name) {
      return pools.empty() ? std::string() : std::string("role: ") + name + " ";
    };
    const std::filesystem::path out =
        std::filesystem::path(::testing::TempDir()) / testing::UniqueName("replica_groups");
    RunControl control;
    const Summary summary =
        RunSimulation(
            Experiment(kBusy,
                       pools +
                           "router { kind: LEAST_REQUESTS telemetry_delay_ms: 30 } "
                           "replica_groups { count: 2 " +
                           role("prefill") +
                           "memory { blocks_override: 20 } } "
                           "replica_groups { count: 2 " +
                           role("decode") +
                           "cost { constant { step_s: 0.03 } } "
                           "policy { vllm_v1 { max_num_batched_tokens: 64 max_num_seqs: 8 } } } "),
            out, {}, control)
            .summary;
    RecordReader reader(out / "record.pb");
    ASSERT_EQ(reader.header().groups.size(), 2u);
    const ExperimentConfig recorded = ParseExperiment(reader.header().config, "record", out);
    const ReplayResult replayed = ReplayDecisions(reader, recorded, reader.header());
    EXPECT_FALSE(replayed.difference) << replayed.difference->text();
    EXPECT_EQ(replayed.digest, reader.end().digest);
    EXPECT_EQ(replayed.digest_text, DigestOf(summary));
    // With the policy of the first group everywhere, others decide.
    ExperimentConfig other = recorded;
    other.system.groups[1].policy = other.system.groups[0].policy;
    RecordReader from_the_start(out / "record.pb");
    EXPECT_TRUE(ReplayDecisions(from_the_start, other, from_the_start.header()).difference);
    other.system.groups.pop_back();
    RecordReader once_more(out / "record.pb");
    EXPECT_THROW(ReplayDecisions(once_more, other, once_more.header()), InputError);
    std::filesystem::remove_all(out);
  }
}

TEST(ReplicaGroupsTest, OverridesReachAGroup) {
  const ExperimentTemplate experiment = ExperimentTemplate::FromText(
      Text(kBusy, "replica_groups { count: 1 } replica_groups { count: 2 } "), "test");
  const ExperimentConfig config =
      experiment.With({{"system.replica_groups[1].count=5", "system.memory.block_size=8",
                        "system.replica_groups[0].policy.vllm_v1.max_num_seqs=3"}},
                      {});
  EXPECT_EQ(config.system.replicas, 6);
  EXPECT_EQ(config.system.groups[1].memory.block_size, 8);
  EXPECT_EQ(config.system.groups[0].policy.Get<VllmV1Config>().max_num_seqs, 3);
  EXPECT_NE(config.system.groups[1].policy.Get<VllmV1Config>().max_num_seqs, 3);
}

TEST(ReplicaGroupsTest, WarningsNameTheGroup) {
  const Deployment deployment =
      Resolve(Experiment(kBusy, "replica_groups {} replica_groups { pipeline_parallel: 2 } "));
  EXPECT_THAT(WarningsOf(deployment),
              ElementsAre(StartsWith("system.replica_groups[1]: system.pipeline_parallel is 2")));
}

std::string RefusalOf(const std::string& system) {
  try {
    Resolve(Experiment(kBusy, system));
  } catch (const InputError& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "";
}

TEST(ReplicaGroupsTest, RefusesBadGroupsInOneLine) {
  const std::string group = "replica_groups { count: 2 } ";
  const std::string prefill = "replica_groups { role: prefill } ";
  const std::string decode = "replica_groups { role: decode } ";
  EXPECT_EQ(RefusalOf("replicas: 3 " + group),
            "test: system.replicas: is 3; allowed with replica_groups: 2, the sum of their counts, "
            "or none");
  EXPECT_EQ(RefusalOf(group + prefill),
            "test: system.replica_groups[1].role: is prefill; allowed without "
            "system.disaggregation: both");
  EXPECT_EQ(RefusalOf("disaggregation {} " + group),
            "test: system.replica_groups[0].role: is both; allowed with system.disaggregation: "
            "prefill, decode");
  EXPECT_EQ(RefusalOf("disaggregation {} " + decode + prefill),
            "test: system.replica_groups[1].role: is prefill behind a group that decodes; allowed: "
            "groups that prefill before groups that decode");
  EXPECT_THAT(RefusalOf("disaggregation {} " + prefill), HasSubstr("no group that decodes"));
  EXPECT_THAT(RefusalOf("disaggregation { decode_replicas: 2 } " + prefill + decode),
              HasSubstr("system.disaggregation.decode_replicas: is 2; allowed"));
  EXPECT_THAT(RefusalOf("replica_groups { count: 6000 } replica_groups { count: 6000 } "),
              HasSubstr("are 12000 replicas; allowed: 10000 in all"));
  EXPECT_THAT(RefusalOf("replica_groups { count: 0 } "),
              HasSubstr("system.replica_groups[0].count: must be at least 1, is 0"));
  EXPECT_THAT(RefusalOf(group + "replica_groups { hardware: 'a200' } "),
              StartsWith("test: system.replica_groups[1]: "));
  EXPECT_THAT(RefusalOf(group + "replica_groups { memory { blocks_override: 3 } } "),
              HasSubstr("does not fit into 3 blocks"));
  EXPECT_EQ(RefusalOf(group + "replica_groups { memory { block_size: 8 } } "),
            "system.replica_groups[1]: the block size is 8; allowed: 16, as in replica_groups[0]");
  EXPECT_EQ(RefusalOf(group + "replica_groups { policy { vllm_v1 { max_model_len: 64 } } } "),
            "system.replica_groups[1]: tokens per request is 64; allowed: 128, as in "
            "replica_groups[0]");
  EXPECT_THAT(
      RefusalOf(group + "replica_groups { policy { vllm_v1 { enable_prefix_caching: false } } } "),
      HasSubstr("prefix caching is false; allowed: true"));
  EXPECT_THAT(
      RefusalOf("disaggregation {} " + prefill +
                "replica_groups { role: decode policy { sarathi { max_model_len: 128 } } "
                "} "),
      HasSubstr("replica_groups[1]: system.disaggregation: policy.sarathi takes in no keys"));
}

TEST(ReplicaGroupsTest, ARealWorldRefusesThem) {
  const ExperimentConfig config =
      Experiment(std::string(kBusy) + "world { real { dummy_weights: true } } ",
                 "replica_groups {} replica_groups {} ");
  try {
    ResolveForThisMachine(config, std::int64_t{1} << 30);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), StartsWith("system.replica_groups: have no real world"));
  }
}

}  // namespace
}  // namespace twin::run
