// Simulations of several replicas behind a router.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/input_error.h"
#include "run/files/record_file.h"
#include "run/make_engines.h"
#include "run/record/plan_digest.h"
#include "run/record/recording_world.h"
#include "run/record/run_listener.h"
#include "run/replay.h"
#include "run/simulation.h"
#include "sched/policy/vllm_v1.h"
#include "sched/serve.h"
#include "sim/world/sim_world.h"
#include "tests/support/unique_name.h"

namespace twin::run {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr const char* kRouters[] = {"ROUND_ROBIN",  "RANDOM",     "LEAST_REQUESTS",
                                    "LEAST_TOKENS", "LEAST_KV",   "POWER_OF_TWO",
                                    "SESSION_HASH", "KV_OVERLAP", "PREFIX_AFFINITY"};

// Conversations with common system prompts, too many for one replica.
ExperimentConfig Experiment(const std::string& system, const std::string& world = "") {
  return ParseExperiment(
      world +
          "workload { requests: 200 arrivals { kind: poisson rate: 40 } shape { "
          "prompt { kind: uniform min: 4 max: 40 } output { kind: uniform min: 1 max: 20 } "
          "shared_prefix { prompts: 3 tokens: 16 } "
          "sessions { turns { kind: uniform min: 1 max: 4 } think { kind: constant mean_s: 0.2 } "
          "context_tokens_max: 100 } } } "
          "system { hardware: 'cpu-generic' model_shape { layers: 2 hidden: 32 intermediate: 48 "
          "query_heads: 4 kv_heads: 2 head_dim: 8 vocab: 101 max_position: 128 weight_dtype: fp32 "
          "kv_dtype: bf16 } memory { blocks_override: 40 } " +
          system +
          "} cost { constant { step_s: 0.02 } } "
          "policy { vllm_v1 { max_model_len: 128 enable_prefix_caching: true } }",
      "test", "/");
}

// Which replica served which request.
class Places final : public RunListener, public RunObserver {
 public:
  void OnEnded(const RequestLife& life) override {
    ended.insert(Index(life.id));
    replicas.insert(life.replica);
  }
  void OnInstant(const Instant& instant) override {
    for (const Event& event : instant.events) {
      const auto* const arrived = std::get_if<RequestArrived>(&event);
      if (arrived != nullptr) sessions_[arrived->request.id] = arrived->request.session;
    }
  }
  void OnPlan(TimePoint /*now*/, const StepPlan& plan) override {
    for (const RequestId id : plan.admitted) of_session[sessions_[id]].insert(plan.replica);
  }

  std::multiset<std::uint32_t> ended;
  std::set<std::int32_t> replicas;
  std::map<std::uint64_t, std::set<std::int32_t>> of_session;

 private:
  std::map<RequestId, std::uint64_t> sessions_;
};

std::string DigestOf(const Summary& summary) {
  return std::get<std::string>(*summary.Find("digest"));
}

TEST(ClusterRunTest, OneReplicaBehindARouterDecidesAsAnEngineAlone) {
  for (const char* const router : kRouters) {
    const Deployment deployment =
        Resolve(Experiment("router { kind: " + std::string(router) + " } "));
    RunControl control;
    const std::string alone = DigestOf(Simulate(deployment, control).summary);
    const auto source = MakeWorkload(deployment.config.workload, deployment.config.seed);
    sim::SimWorld simulated(*source, *deployment.cost, deployment.world);
    PlanDigest digest;
    RunObserver* const observers[] = {&digest};
    RecordingWorld world(simulated, observers);
    const auto cluster = MakeCluster(deployment);
    Serve(*cluster, world);
    cluster->CheckDrained();
    EXPECT_EQ(digest.text(), alone) << router;
  }
}

class EveryRouterTest : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryRouterTest, ServesEachRequestOnceAndReplays) {
  const std::filesystem::path out =
      std::filesystem::path(::testing::TempDir()) / testing::UniqueName("cluster");
  const ExperimentConfig config = Experiment(
      "replicas: 4 router { kind: " + std::string(GetParam()) + " telemetry_delay_ms: 30 } ");
  RunControl control;
  Places places;
  RunWatchers watchers;
  watchers.listeners.push_back(&places);
  const Summary in_memory = Simulate(Resolve(config), control, watchers).summary;
  EXPECT_EQ(places.ended.size(), 200u);
  EXPECT_EQ(std::set<std::uint32_t>(places.ended.begin(), places.ended.end()).size(), 200u);
  EXPECT_EQ(places.replicas, (std::set<std::int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(in_memory.Number("completed"), 200);
  EXPECT_EQ(in_memory.Number("replicas"), 4);
  EXPECT_GE(in_memory.Number("requests_imbalance"), 1);
  EXPECT_LE(in_memory.Number("min_busy_share"), in_memory.Number("busy_share"));
  EXPECT_GE(in_memory.Number("max_busy_share"), in_memory.Number("busy_share"));

  const Summary written = RunSimulation(config, out, {}, control).summary;
  EXPECT_EQ(DigestOf(written), DigestOf(in_memory));
  RecordReader reader(out / "record.pb");
  const ExperimentConfig recorded = ParseExperiment(reader.header().config, "record", out);
  const ReplayResult replayed = ReplayDecisions(reader, recorded, reader.header());
  EXPECT_FALSE(replayed.difference) << replayed.difference->text();
  EXPECT_EQ(replayed.digest, reader.end().digest);
  EXPECT_EQ(replayed.digest_text, DigestOf(written));
  std::filesystem::remove_all(out);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryRouterTest, ::testing::ValuesIn(kRouters),
                         [](const auto& test) { return std::string(test.param); });

TEST(ClusterRunTest, AnotherRouterDoesNotReplayTheRecord) {
  const std::filesystem::path out =
      std::filesystem::path(::testing::TempDir()) / testing::UniqueName("cluster");
  RunControl control;
  RunSimulation(Experiment("replicas: 4 "), out, {}, control);
  RecordReader reader(out / "record.pb");
  ExperimentConfig recorded = ParseExperiment(reader.header().config, "record", out);
  recorded.system.router.kind = RouterKind::kRandom;
  EXPECT_TRUE(ReplayDecisions(reader, recorded, reader.header()).difference);
  std::filesystem::remove_all(out);
}

TEST(ClusterRunTest, RoundRobinPlacesEquallyMany) {
  RunControl control;
  const Summary summary = Simulate(Resolve(Experiment("replicas: 4 ")), control).summary;
  EXPECT_EQ(summary.Number("requests_imbalance"), 1);
  EXPECT_GT(summary.Number("tokens_imbalance"), 1);
}

TEST(ClusterRunTest, ConversationsStayWithTheirReplica) {
  RunControl control;
  Places places;
  RunWatchers watchers;
  watchers.observers.push_back(&places);
  Simulate(Resolve(Experiment("replicas: 4 router { kind: SESSION_HASH } ")), control, watchers);
  EXPECT_GT(places.of_session.size(), 50u);
  for (const auto& [session, replicas] : places.of_session) EXPECT_EQ(replicas.size(), 1u);
}

TEST(ClusterRunTest, TablesNameTheReplica) {
  const std::filesystem::path out =
      std::filesystem::path(::testing::TempDir()) / testing::UniqueName("cluster");
  RunControl control;
  RunSimulation(Experiment("replicas: 2 "), out, {}, control);
  std::set<std::string> replicas;
  for (const char* const name : {"requests.csv", "steps.csv"}) {
    std::ifstream file(out / name);
    std::string line;
    std::getline(file, line);
    EXPECT_THAT(line, EndsWith(",replica"));
    while (std::getline(file, line)) replicas.insert(line.substr(line.rfind(',') + 1));
  }
  EXPECT_EQ(replicas, (std::set<std::string>{"0", "1"}));
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

TEST(ClusterRunTest, RefusesToCompareWithCachesThatDoNotExist) {
  ExperimentConfig config = Experiment("replicas: 2 router { kind: PREFIX_AFFINITY } ");
  EXPECT_EQ(RefusalOf(config), "");
  config.policy.Get<VllmV1Config>().enable_prefix_caching = false;
  EXPECT_THAT(RefusalOf(config), HasSubstr("system.router.kind: compares prompts"));
}

}  // namespace
}  // namespace twin::run
