// Simulations in which some replicas prefill and others decode.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/input_error.h"
#include "run/files/record_file.h"
#include "run/record/run_listener.h"
#include "run/replay.h"
#include "run/simulation.h"
#include "sched/policy/orca.h"
#include "tests/support/unique_name.h"

namespace twin::run {
namespace {

using ::testing::HasSubstr;

// One token's keys and values: 2 * 2 layers * 2 heads * 8 * 2 bytes.
constexpr double kTokenBytes = 128;

// `policy`: distserve { ... }, splitwise { ... }, or fields of vllm_v1.
ExperimentConfig Experiment(const std::string& system, const std::string& policy = "",
                            const std::string& more = "") {
  const bool swaps = policy.starts_with("distserve");
  const bool named = swaps || policy.starts_with("splitwise");
  return ParseExperiment(
      more +
          "workload { requests: 200 arrivals { kind: poisson rate: 40 } shape { "
          "prompt { kind: uniform min: 4 max: 40 } output { kind: uniform min: 1 max: 20 } "
          "shared_prefix { prompts: 3 tokens: 16 } } } "
          "system { hardware: 'cpu-generic' model_shape { layers: 2 hidden: 32 intermediate: 48 "
          "query_heads: 4 kv_heads: 2 head_dim: 8 vocab: 101 max_position: 128 weight_dtype: fp32 "
          "kv_dtype: bf16 } memory { blocks_override: 40 " +
          (swaps ? "swap_bytes: 1000000 " : "") + "} " + system +
          "} cost { constant { step_s: 0.02 } } policy { " +
          (named ? policy : "vllm_v1 { max_model_len: 128 " + policy + " }") + " }",
      "test", "/");
}

// What each request got, and which replicas computed for it.
class Outcomes final : public RunListener, public RunObserver {
 public:
  void OnEnded(const RequestLife& life) override {
    tokens[Index(life.id)] = life.output_tokens;
    status[Index(life.id)] = life.status;
    if (life.has_tokens()) ttft[Index(life.id)] = life.first_token - life.arrival;
  }
  void OnInstant(const Instant& instant) override {
    for (const Event& event : instant.events) {
      if (std::holds_alternative<TransferFinished>(event)) ++ended;
    }
  }
  void OnPlan(TimePoint /*now*/, const StepPlan& plan) override {
    for (const WorkItem& item : plan.work) {
      if (item.phase == Phase::kPrefill) prefilled[Index(item.request)] = plan.replica;
      if (item.phase == Phase::kDecode) decoded[Index(item.request)] = plan.replica;
    }
  }
  void OnTransfer(TimePoint /*now*/, const KvTransfer& transfer) override {
    ++begun;
    copied += transfer.copied_tokens();
  }

  std::map<std::uint32_t, std::int32_t> tokens;
  std::map<std::uint32_t, RequestStatus> status;
  std::map<std::uint32_t, Duration> ttft;
  std::map<std::uint32_t, std::int32_t> prefilled;
  std::map<std::uint32_t, std::int32_t> decoded;
  std::int64_t begun = 0;
  std::int64_t ended = 0;
  std::int64_t copied = 0;
};

Summary Watch(const ExperimentConfig& config, Outcomes& outcomes) {
  RunControl control;
  RunWatchers watchers;
  watchers.listeners.push_back(&outcomes);
  watchers.observers.push_back(&outcomes);
  return Simulate(Resolve(config), control, watchers).summary;
}

std::string DigestOf(const Summary& summary) {
  return std::get<std::string>(*summary.Find("digest"));
}

TEST(DisaggregationTest, FreeTransfersGiveTheTokensAndCompletionsOfOneReplica) {
  Outcomes one;
  Outcomes two;
  Watch(Experiment(""), one);
  const Summary summary =
      Watch(Experiment("disaggregation { link { latency_us: 0 bandwidth_gbps: 0 } } "), two);
  EXPECT_EQ(one.tokens, two.tokens);
  EXPECT_EQ(one.status, two.status);
  EXPECT_EQ(summary.Number("replicas"), 2);
  EXPECT_EQ(summary.Number("max_kv_transfer_ms"), 0);
  EXPECT_EQ(two.begun, two.ended);
}

TEST(DisaggregationTest, DistServeGivesTheTokensOfOneReplica) {
  Outcomes one;
  Outcomes split;
  Watch(Experiment(""), one);
  const Summary summary = Watch(
      Experiment("disaggregation { prefill_replicas: 2 decode_replicas: 2 } ", "distserve {}"),
      split);
  EXPECT_EQ(one.tokens, split.tokens);
  EXPECT_EQ(one.status, split.status);
  EXPECT_EQ(summary.Number("kv_transfers"), static_cast<double>(split.begun));
  EXPECT_GT(split.begun, 150);
  for (const auto& [request, replica] : split.prefilled) EXPECT_LT(replica, 2);
  for (const auto& [request, replica] : split.decoded) EXPECT_GE(replica, 2);
}

// Three requests per step are too few for the load, so that memory fills. Some requests stay where
// they are prefilled, and both pools lend replicas.
TEST(DisaggregationTest, SplitwiseGivesTheTokensOfOneReplica) {
  Outcomes one;
  Outcomes split;
  Watch(Experiment(""), one);
  const char* const pools =
      "disaggregation { prefill_replicas: 2 decode_replicas: 2 "
      "mixed_pool { prompt_max_pending_batch_tokens: 60 } } ";
  const Summary summary = Watch(Experiment(pools, "splitwise { max_batch_size: 3 }"), split);
  EXPECT_EQ(one.tokens, split.tokens);
  EXPECT_EQ(one.status, split.status);
  EXPECT_EQ(summary.Number("kv_transfers"), static_cast<double>(split.begun));
  EXPECT_EQ(split.begun, split.ended);
  EXPECT_GT(split.begun, 50);
  int stayed = 0;
  int prefilled_by_token_replicas = 0;
  int decoded_by_prompt_replicas = 0;
  for (const auto& [request, replica] : split.decoded) {
    stayed += split.prefilled[request] == replica ? 1 : 0;
    prefilled_by_token_replicas += split.prefilled[request] >= 2 ? 1 : 0;
    decoded_by_prompt_replicas += replica < 2 ? 1 : 0;
  }
  EXPECT_GT(stayed, 0);
  EXPECT_GT(prefilled_by_token_replicas, 0);
  EXPECT_GT(decoded_by_prompt_replicas, 0);
}

TEST(DisaggregationTest, PoolsDoTheirPhaseAlone) {
  Outcomes outcomes;
  const Summary summary =
      Watch(Experiment("disaggregation { prefill_replicas: 2 decode_replicas: 3 } "), outcomes);
  EXPECT_EQ(summary.Number("completed"), 200);
  EXPECT_EQ(summary.Number("kv_transfers"), static_cast<double>(outcomes.begun));
  EXPECT_EQ(summary.Number("kv_transfer_bytes"),
            static_cast<double>(outcomes.copied) * kTokenBytes);
  for (const auto& [request, replica] : outcomes.prefilled) EXPECT_LT(replica, 2);
  EXPECT_GT(outcomes.decoded.size(), 150u);
  for (const auto& [request, replica] : outcomes.decoded) EXPECT_GE(replica, 2);
}

// Every prompt is computed in a step of 20 ms or in the next one. The transfers take 5 s, which no
// first token waits for.
TEST(DisaggregationTest, TheFirstTokenComesFromThePrefillReplica) {
  Outcomes fast;
  Outcomes slow;
  Watch(Experiment("disaggregation {} "), fast);
  Watch(Experiment("disaggregation { link { latency_us: 5000000 } } ", "", ""), slow);
  ASSERT_EQ(fast.ttft.size(), 200u);
  EXPECT_EQ(slow.tokens, fast.tokens);
  // Until the blocks of those that are under way leave no room.
  for (std::uint32_t request = 0; request < 10; ++request) {
    EXPECT_EQ(slow.ttft[request], fast.ttft[request]) << request;
  }
}

// A transfer of n tokens takes n * 128 bytes * 8 / (1e-6 Gbit/s) = n * 1.024 s, one after the
// other.
TEST(DisaggregationTest, TransfersShareTheBandwidthOfTheirReplicas) {
  Outcomes outcomes;
  const Summary summary = Watch(
      Experiment("disaggregation { link { latency_us: 0 bandwidth_gbps: 0.000001 } } "), outcomes);
  EXPECT_EQ(summary.Number("completed"), 200);
  EXPECT_GE(summary.Number("run_seconds"), static_cast<double>(outcomes.copied) * 1.024);
  EXPECT_NEAR(summary.Number("mean_kv_transfer_ms"),
              1024.0 * static_cast<double>(outcomes.copied) / static_cast<double>(outcomes.begun),
              1e-3);
  EXPECT_GT(summary.Number("mean_kv_transfer_wait_ms"), summary.Number("mean_kv_transfer_ms"));
}

// One prompt of n tokens, computed from 0 to 20 ms in two layers, and n * 10.24 ms to send. The
// first layer can leave at 10 ms, and all follow it without a gap: n >= 4.
TEST(DisaggregationTest, LayersAreSentWhileThePromptIsComputed) {
  const auto transfer_ms = [](const std::string& layers, Outcomes& outcomes) {
    ExperimentConfig config = Experiment(
        "disaggregation { link { latency_us: 0 bandwidth_gbps: 0.0001 " + layers + " } } ");
    config.workload.requests = 1;
    return Watch(config, outcomes).Number("mean_kv_transfer_ms");
  };
  Outcomes serial;
  Outcomes layered;
  Outcomes short_prompt;
  const double whole = transfer_ms("", serial);
  ASSERT_EQ(serial.begun, 1);
  EXPECT_NEAR(whole, 10.24 * static_cast<double>(serial.copied), 1e-5);
  EXPECT_NEAR(transfer_ms("layer_wise: true", layered), whole - 10, 1e-5);
  EXPECT_NEAR(transfer_ms("layer_wise: true layer_wise_min_tokens: 41", short_prompt), whole, 1e-5);
  EXPECT_EQ(layered.tokens, serial.tokens);
}

TEST(DisaggregationTest, BlocksCachedAtTheTargetAreNotCopied) {
  Outcomes without;
  Outcomes with;
  Watch(Experiment("disaggregation {} "), without);
  Watch(Experiment("disaggregation {} ", "enable_prefix_caching: true"), with);
  EXPECT_EQ(with.tokens, without.tokens);
  EXPECT_LT(with.copied, without.copied);
}

class SplitReplayTest : public ::testing::TestWithParam<const char*> {};

TEST_P(SplitReplayTest, ReplaysToTheSameDigest) {
  const std::filesystem::path out =
      std::filesystem::path(::testing::TempDir()) / testing::UniqueName("split");
  const ExperimentConfig config = Experiment(
      "router { kind: LEAST_TOKENS } disaggregation { prefill_replicas: 2 decode_replicas: 2 "
      "decode_router { kind: LEAST_KV telemetry_delay_ms: 30 } link { bandwidth_gbps: 0.0003 } } ",
      GetParam(), "world { simulated { client_timeout_s: 1 } } ");
  RunControl control;
  const Summary written = RunSimulation(config, out, {}, control).summary;
  EXPECT_GT(written.Number("cancelled"), 0);
  EXPECT_GT(written.Number("completed"), 10);
  RecordReader reader(out / "record.pb");
  const ExperimentConfig recorded = ParseExperiment(reader.header().config, "record", out);
  const ReplayResult replayed = ReplayDecisions(reader, recorded, reader.header());
  EXPECT_FALSE(replayed.difference) << replayed.difference->text();
  EXPECT_EQ(replayed.digest, reader.end().digest);
  EXPECT_EQ(replayed.digest_text, DigestOf(written));

  RecordReader again(out / "record.pb");
  ExperimentConfig other = recorded;
  other.system.disaggregation->pools.decode_router.kind = RouterKind::kRandom;
  EXPECT_TRUE(ReplayDecisions(again, other, again.header()).difference);
  std::filesystem::remove_all(out);
}

INSTANTIATE_TEST_SUITE_P(Modes, SplitReplayTest,
                         ::testing::Values("", "enable_prefix_caching: true",
                                           "async_scheduling: true max_num_seqs: 4",
                                           "policy: priority max_num_batched_tokens: 128",
                                           "distserve {}",
                                           "distserve { pipeline_parallel_size: 2 "
                                           "waiting_block_prop_threshold: 0.5 }",
                                           "splitwise { max_batch_tokens: 64 }"));

TEST(DisaggregationTest, MixedPoolsReplayToTheSameDigest) {
  const std::filesystem::path out =
      std::filesystem::path(::testing::TempDir()) / testing::UniqueName("mixed");
  const ExperimentConfig config = Experiment(
      "router { telemetry_delay_ms: 30 } disaggregation { prefill_replicas: 2 decode_replicas: 2 "
      "mixed_pool { prompt_max_pending_batch_tokens: 60 } link { bandwidth_gbps: 0.0003 } } ",
      "splitwise { max_batch_tokens: 64 }", "world { simulated { client_timeout_s: 1 } } ");
  RunControl control;
  const Summary written = RunSimulation(config, out, {}, control).summary;
  EXPECT_GT(written.Number("cancelled"), 0);
  EXPECT_GT(written.Number("kv_transfers"), 10);
  RecordReader reader(out / "record.pb");
  const ExperimentConfig recorded = ParseExperiment(reader.header().config, "record", out);
  EXPECT_TRUE(recorded.system.disaggregation == config.system.disaggregation);
  const ReplayResult replayed = ReplayDecisions(reader, recorded, reader.header());
  EXPECT_FALSE(replayed.difference) << replayed.difference->text();
  EXPECT_EQ(replayed.digest_text, DigestOf(written));

  RecordReader again(out / "record.pb");
  ExperimentConfig other = recorded;
  other.system.disaggregation->pools.mixed_pool->prompt_max_pending_batch_tokens = 10;
  EXPECT_TRUE(ReplayDecisions(again, other, again.header()).difference);
  std::filesystem::remove_all(out);
}

std::string RefusalOf(const ExperimentConfig& config) {
  try {
    Resolve(config);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(DisaggregationTest, RefusesPoliciesThatTakeInNothing) {
  ExperimentConfig config = Experiment("disaggregation {} ");
  EXPECT_EQ(RefusalOf(config), "");
  config.policy = OrcaConfig{};
  EXPECT_THAT(RefusalOf(config),
              HasSubstr("system.disaggregation: policy.orca takes in no keys and values"));
}

TEST(DisaggregationTest, RefusesMixedPoolsOfPoliciesThatKeepPhasesApart) {
  for (const char* const policy : {"", "distserve {}"}) {
    EXPECT_THAT(RefusalOf(Experiment("disaggregation { mixed_pool {} } ", policy)),
                HasSubstr("system.disaggregation.mixed_pool: lets replicas do both phases, but "));
  }
  EXPECT_EQ(RefusalOf(Experiment("disaggregation { mixed_pool {} } ", "splitwise {}")), "");
}

TEST(DisaggregationTest, RefusesDistServeWithoutSeparatePools) {
  for (const char* const system : {"", "replicas: 2 "}) {
    EXPECT_EQ(RefusalOf(Experiment(system, "distserve {}")),
              "policy.distserve: has no replicas that both prefill and decode; allowed: with "
              "system.disaggregation");
  }
}

TEST(DisaggregationTest, RefusesAnotherNumberOfReplicas) {
  EXPECT_EQ(Experiment("disaggregation { prefill_replicas: 3 } ").system.replicas, 4);
  try {
    Experiment("replicas: 3 disaggregation { prefill_replicas: 3 } ");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("system.replicas: is 3; allowed with disaggregation: 4"));
  }
}

}  // namespace
}  // namespace twin::run
