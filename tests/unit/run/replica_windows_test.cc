// Replicas that are served one after the other, against the loop that serves them in time.
#include "run/replica_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "core/random.h"
#include "run/make_engines.h"
#include "run/record/plan_digest.h"
#include "run/record/recording_world.h"
#include "run/run_metrics.h"
#include "run/simulation.h"
#include "sched/serve.h"

namespace twin::run {
namespace {

// Two classes whose requests come every 20 ms, both at once, to replicas whose steps take 20 ms and
// end together: nearly everything happens at a time at which something else happens, too. Prompts
// beyond 128 tokens are rejected by steps that take no time. The caches are small enough for
// preemptions.
constexpr const char* kClasses =
    "workload { requests: 150 "
    "classes { name: 'short' arrivals { kind: constant rate: 50 } shape { "
    "prompt { kind: uniform min: 1 max: 40 } output { kind: uniform min: 1 max: 12 } } } "
    "classes { name: 'long' arrivals { kind: constant rate: 50 } shape { "
    "prompt { kind: uniform min: 20 max: 140 } output { kind: uniform min: 1 max: 30 } "
    "shared_prefix { prompts: 3 tokens: 16 } } } } ";

ExperimentConfig Experiment(const std::string& workload, const std::string& policy,
                            const std::string& system, const std::string& more = "") {
  return ParseExperiment(
      workload +
          "system { hardware: 'cpu-generic' model_shape { layers: 2 hidden: 32 intermediate: 48 "
          "query_heads: 4 kv_heads: 2 head_dim: 8 vocab: 101 max_position: 128 weight_dtype: fp32 "
          "kv_dtype: bf16 } memory { blocks_override: 24 swap_bytes: 100000 } " +
          system + "} cost { constant { step_s: 0.02 } } policy { " + policy + " } " + more,
      "test", "/");
}

std::string TextOf(const Summary& summary) {
  std::ostringstream json;
  WriteJson(json, summary);
  return json.str();
}

std::string ServedInTime(const Deployment& deployment) {
  RunMetrics metrics(deployment, {});
  const auto source = MakeWorkload(deployment.config.workload, deployment.config.seed);
  sim::SimWorld simulated(*source, *deployment.cost, deployment.world);
  RecordingWorld world(simulated, metrics.observers());
  const auto cluster = MakeCluster(deployment);
  Serve(*cluster, world);
  cluster->CheckDrained();
  return TextOf(metrics.Summarise());
}

// In windows of drawn lengths, from a twentieth of a step to a hundred steps, on 1 to 3 threads.
std::string ServedAhead(const Deployment& deployment, std::uint64_t seed) {
  RunMetrics metrics(deployment, {});
  const auto source = MakeWorkload(deployment.config.workload, deployment.config.seed);
  sim::SimWorld world(*source, *deployment.cost, deployment.world);
  const auto cluster = MakeCluster(deployment);
  EXPECT_TRUE(ReplicaWindows::CanServe(*cluster, world));
  Random random(seed, "windows");
  const auto threads = static_cast<int>(random.UniformInt(1, 3));
  RunObserver* const observers[] = {&metrics.digest()};
  ReplicaWindows server(*cluster, world, metrics.tracker(), *metrics.ReplicaPlayer(), observers,
                        threads);
  const auto length = [&] {
    const auto drawn = std::chrono::milliseconds(random.UniformInt(1, 2000));
    return std::min<Duration>(drawn, cluster->window_max());
  };
  while (server.ServeWindow(length())) {
  }
  server.ShowServed();
  cluster->CheckDrained();
  return TextOf(metrics.Summarise());
}

class EveryPolicyTest : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryPolicyTest, GivesTheSameDigestAndSummaryWhateverTheWindows) {
  for (const std::string router : {"ROUND_ROBIN", "RANDOM", "SESSION_HASH"}) {
    for (const std::string replicas : {"2", "5"}) {
      const Deployment deployment = Resolve(Experiment(
          kClasses, GetParam(), "replicas: " + replicas + " router { kind: " + router + " } "));
      const std::string expected = ServedInTime(deployment);
      for (const std::uint64_t seed : {1u, 2u}) {
        EXPECT_EQ(ServedAhead(deployment, seed), expected) << router << ", " << replicas;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Policies, EveryPolicyTest,
    ::testing::Values("static { max_batch_size: 4 }", "orca { max_bs: 6 }", "vllm_v0 {}",
                      "vllm_v1 { enable_prefix_caching: true async_scheduling: false }",
                      "vllm_v1 { enable_prefix_caching: true async_scheduling: true }",
                      "sarathi { chunk_size: 32 }", "splitfuse {}", "tgi_v2 {}", "tgi_v3 {}",
                      "trtllm {}", "lightllm {}", "sglang {}",
                      "triton { max_batch_size: 4 max_queue_delay_microseconds: 50000 }"),
    [](const auto& test) {
      const std::string text = test.param;
      return text.substr(0, text.find(' ')) + std::to_string(test.index);
    });

constexpr const char* kPolicy = "vllm_v1 { max_model_len: 128 }";

class DelayedRouterTest : public ::testing::TestWithParam<const char*> {};

// Steps and arrivals lie on a grid of 20 ms: news of 20 and 40 ms arrives at the very time of a
// request, news of 30 ms between two.
TEST_P(DelayedRouterTest, KnowsAtEachArrivalWhatItWouldKnowInTime) {
  for (const std::string delay_ms : {"1", "20", "30", "40", "300"}) {
    const std::string system = std::string("replicas: 4 router { kind: ") + GetParam() +
                               " telemetry_delay_ms: " + delay_ms + " } ";
    const Deployment deployment = Resolve(
        Experiment(kClasses, "vllm_v1 { max_model_len: 128 enable_prefix_caching: true }", system));
    const std::string expected = ServedInTime(deployment);
    for (const std::uint64_t seed : {1u, 2u}) {
      EXPECT_EQ(ServedAhead(deployment, seed), expected) << delay_ms;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, DelayedRouterTest,
                         ::testing::Values("LEAST_REQUESTS", "LEAST_TOKENS", "LEAST_KV",
                                           "POWER_OF_TWO", "KV_OVERLAP", "PREFIX_AFFINITY"),
                         [](const auto& test) { return std::string(test.param); });

TEST(ReplicaWindowsTest, ServesReplicasThatDiffer) {
  const Deployment deployment =
      Resolve(Experiment(kClasses, kPolicy,
                         "replica_groups { count: 2 cost { constant { step_s: 0.03 } } } "
                         "replica_groups { count: 1 policy { sarathi {} } } "));
  EXPECT_EQ(ServedAhead(deployment, 4), ServedInTime(deployment));
}

// What a simulation of the deployment says, but for what it says of the process.
std::string Simulated(const Deployment& deployment, int threads) {
  RunControl control;
  Summary summary = Simulate(deployment, control, {}, threads).summary;
  for (const char* const of_process : {"cpu_seconds", "peak_rss_mib"}) {
    summary.Set(of_process, 0.0);
  }
  return TextOf(summary);
}

// 40 replicas are more than there are pieces of work (run/replica_windows.cc), and make enough
// steps in a window for the threads to share them.
TEST(ReplicaWindowsTest, GivesTheSameSummaryWithAnyNumberOfThreads) {
  const std::string workload =
      "workload { requests: 3000 arrivals { kind: poisson rate: 800 } shape { "
      "prompt { kind: uniform min: 1 max: 60 } output { kind: uniform min: 1 max: 30 } } } ";
  for (const std::string router : {"kind: ROUND_ROBIN", "kind: LEAST_KV telemetry_delay_ms: 300"}) {
    const Deployment deployment =
        Resolve(Experiment(workload, kPolicy, "replicas: 40 router { " + router + " } "));
    const std::string expected = Simulated(deployment, 1);
    for (const int threads : {2, 3, 8}) {
      EXPECT_EQ(Simulated(deployment, threads), expected) << router << ", " << threads;
    }
  }
}

// Whoever watches a run sees it in time; the digest and the metrics are the same.
TEST(ReplicaWindowsTest, IsHowSimulationsOfReplicasRun) {
  class Watcher final : public RunListener {
   public:
    void OnArrived(TimePoint now, const RequestLife& /*life*/) override {
      in_time = in_time && now >= latest;
      latest = now;
    }
    void OnStepEnded(const EndedStep& step) override {
      in_time = in_time && step.finished >= latest;
      latest = step.finished;
    }
    TimePoint latest = kTimeZero;
    bool in_time = true;
  };
  const Deployment deployment = Resolve(Experiment(kClasses, kPolicy, "replicas: 3 "));
  RunControl control;
  Watcher watcher;
  RunWatchers watchers;
  watchers.listeners.push_back(&watcher);
  Summary watched = Simulate(deployment, control, watchers).summary;
  Summary alone = Simulate(deployment, control).summary;
  EXPECT_TRUE(watcher.in_time);
  for (const char* const of_process : {"cpu_seconds", "peak_rss_mib"}) {
    watched.Set(of_process, 0.0);
    alone.Set(of_process, 0.0);
  }
  EXPECT_EQ(TextOf(alone), TextOf(watched));
}

TEST(ReplicaWindowsTest, ObservesARequestToStop) {
  class Stop final : public RunControl {
   public:
    [[nodiscard]] bool StopRequested() const override { return true; }
  };
  const Deployment deployment = Resolve(Experiment(kClasses, kPolicy, "replicas: 3 "));
  Stop control;
  const RunOutcome outcome = Simulate(deployment, control);
  EXPECT_TRUE(outcome.interrupted);
  EXPECT_LT(outcome.summary.Number("completed"), 150);
}

bool CanServe(const ExperimentConfig& config) {
  const Deployment deployment = Resolve(config);
  const auto source = MakeWorkload(deployment.config.workload, deployment.config.seed);
  const sim::SimWorld world(*source, *deployment.cost, deployment.world);
  return ReplicaWindows::CanServe(*MakeCluster(deployment), world);
}

TEST(ReplicaWindowsTest, NeedsReplicasThatNothingConnects) {
  EXPECT_TRUE(CanServe(Experiment(kClasses, kPolicy, "replicas: 3 ")));
  EXPECT_TRUE(CanServe(Experiment(
      kClasses, kPolicy, "replicas: 3 router { kind: LEAST_REQUESTS telemetry_delay_ms: 1 } ")));
  // The router sees at once what the replicas do.
  EXPECT_FALSE(
      CanServe(Experiment(kClasses, kPolicy, "replicas: 3 router { kind: LEAST_REQUESTS } ")));
  // Requests go from one replica to another.
  EXPECT_FALSE(CanServe(Experiment(kClasses, kPolicy, "disaggregation {} ")));
  // The next turn of a conversation comes when the one before has been answered.
  const std::string conversations =
      "workload { requests: 50 arrivals { kind: poisson rate: 40 } shape { "
      "prompt { kind: uniform min: 4 max: 40 } output { kind: uniform min: 1 max: 20 } "
      "sessions { turns { kind: uniform min: 1 max: 4 } think { kind: constant mean_s: 0.2 } } } "
      "} ";
  EXPECT_FALSE(CanServe(Experiment(conversations, kPolicy, "replicas: 3 ")));
  // Clients give up.
  EXPECT_FALSE(CanServe(Experiment(kClasses, kPolicy, "replicas: 3 ",
                                   "world { simulated { client_timeout_s: 1 } }")));
}

}  // namespace
}  // namespace twin::run
