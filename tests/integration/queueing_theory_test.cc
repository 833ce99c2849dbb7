// Compares simulated servers with exact results of queueing theory.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "run/record/metrics_collector.h"
#include "run/record/recording_world.h"
#include "run/record/request_tracker.h"
#include "sched/engine.h"
#include "sched/policy/registry.h"
#include "sched/serve.h"
#include "sim/cost/constant_cost.h"
#include "sim/world/sim_world.h"
#include "traces/workload.h"

namespace twin {
namespace {

constexpr Duration kStep = std::chrono::milliseconds(10);
constexpr KvPoolConfig kCache{.block_size = 16, .blocks = 1000};

IntegerDistribution Fixed(std::int32_t value) {
  IntegerDistribution distribution;
  distribution.kind = IntegerDistribution::Kind::kFixed;
  distribution.value = value;
  return distribution;
}

IntegerDistribution Uniform(std::int32_t min, std::int32_t max) {
  IntegerDistribution distribution;
  distribution.kind = IntegerDistribution::Kind::kUniform;
  distribution.min = min;
  distribution.max = max;
  return distribution;
}

WorkloadConfig Arrivals(ArrivalConfig::Kind kind, double rate, std::int64_t requests) {
  WorkloadConfig workload;
  workload.requests = requests;
  workload.arrivals.kind = kind;
  workload.arrivals.rate = rate;
  workload.shape.prompt = Fixed(16);
  workload.shape.output = Fixed(1);
  return workload;
}

// A run in steps of 10 ms, whatever they carry.
void Simulate(const WorkloadConfig& workload, const PolicyConfig& policy, KvPoolConfig kv,
              std::vector<RunListener*> listeners) {
  const std::unique_ptr<ArrivalSource> source = MakeWorkload(workload, /*seed=*/20);
  const sim::ConstantCost cost({.host_time = {}, .step_time = kStep}, 1);
  sim::SimWorld simulated(*source, cost, {});
  kv.release_order = TraitsOf(policy).release_order;
  Engine engine(EngineConfig{.kv = kv, .plans_per_instant_max = 0}, MakePolicy(policy, kv));
  RequestTracker tracker({kv.blocks, engine.policy().traits().delivery, {}}, listeners);
  RunObserver* const observers[] = {&tracker};
  RecordingWorld world(simulated, observers);
  Serve(engine, world);
  engine.CheckDrained();
}

// How long requests wait until they are served, in seconds.
class Waits final : public RunListener {
 public:
  void OnEnded(const RequestLife& life) override {
    seconds.push_back(Seconds(life.scheduled - life.arrival));
  }
  std::vector<double> seconds;  // in order of service
};

struct Server {
  std::string name;
  PolicyConfig policy;
};

StaticConfig OneRow(bool padded) {
  StaticConfig config;
  config.padded = padded;
  config.max_batch_size = 1;
  if (!padded) config.max_model_len = 4096;
  return config;
}

OrcaConfig OneSequence() {
  OrcaConfig config;
  config.max_bs = 1;
  return config;
}

// Servers of one request at a time: single-server queues with a service time of one step per token.
std::vector<Server> SingleServers() {
  return {{"static_padded", OneRow(true)}, {"static", OneRow(false)}, {"orca", OneSequence()}};
}

// Mean and half width of its 99.9 % confidence interval by batch means: 20 batches of 5,000 waits,
// behind 5,000 that warm up. Student's t with 19 degrees of freedom: 3.883.
void ExpectMeanWait(const WorkloadConfig& workload, const PolicyConfig& policy, double expected) {
  Waits waits;
  Simulate(workload, policy, kCache, {&waits});
  constexpr std::size_t kBatch = 5'000;
  constexpr std::size_t kBatches = 20;
  ASSERT_EQ(waits.seconds.size(), kBatch * (kBatches + 1));
  double sum = 0;
  double squares = 0;
  for (std::size_t batch = 1; batch <= kBatches; ++batch) {
    double mean = 0;
    for (std::size_t i = 0; i < kBatch; ++i) mean += waits.seconds[batch * kBatch + i] / kBatch;
    sum += mean;
    squares += mean * mean;
  }
  const double mean = sum / kBatches;
  const double variance = (squares - sum * mean) / (kBatches - 1);
  const double half_width = 3.883 * std::sqrt(variance / kBatches);
  EXPECT_NEAR(mean, expected, half_width);
  EXPECT_LT(half_width, 0.15 * expected) << "the interval says nothing";
}

class SingleServerTest : public ::testing::TestWithParam<Server> {};

// M/D/1, mean wait rho S / (2 (1 - rho)): Pollaczek and Khinchine's formula with a constant service
// time S (Kleinrock, Queueing Systems, volume 1, 1975, chapter 5). S = 10 ms, rho = 0.7:
// 0.7 * 10 / 0.6 = 11.667 ms.
TEST_P(SingleServerTest, PoissonArrivalsWaitAsInMD1) {
  ExpectMeanWait(Arrivals(ArrivalConfig::Kind::kPoisson, 70, 105'000), GetParam().policy,
                 0.007 / 0.6);
}

// M/G/1, mean wait lambda E[S^2] / (2 (1 - rho)), same source. Outputs of 1, 2 or 3 tokens:
// E[S] = 20 ms, E[S^2] = 14/3 * 100 ms^2; lambda = 25/s: rho = 0.5 and 11.667 ms.
TEST_P(SingleServerTest, OutputsOfRandomLengthWaitAsInMG1) {
  WorkloadConfig workload = Arrivals(ArrivalConfig::Kind::kPoisson, 25, 105'000);
  workload.shape.output = Uniform(1, 3);
  ExpectMeanWait(workload, GetParam().policy, 25 * (14.0 / 3 * 1e-4) / (2 * 0.5));
}

// D/D/1: requests every 20 ms, each served for 20 ms: the server never rests and nobody waits.
TEST_P(SingleServerTest, RegularArrivalsNeverWait) {
  WorkloadConfig workload = Arrivals(ArrivalConfig::Kind::kConstant, 50, 2'000);
  workload.shape.output = Fixed(2);
  Waits waits;
  MetricsCollector metrics({});
  Simulate(workload, GetParam().policy, kCache, {&waits, &metrics});
  EXPECT_EQ(waits.seconds, std::vector<double>(2'000, 0.0));
  EXPECT_NEAR(metrics.Summarise().Number("busy_share"), 1.0, 1e-9);
}

// D/D/1 with rho = 2: the k-th request (from 0) waits for k services less k gaps, k * 10 ms.
TEST_P(SingleServerTest, AnOverloadedServerFallsBehindSteadily) {
  Waits waits;
  WorkloadConfig workload = Arrivals(ArrivalConfig::Kind::kConstant, 100, 500);
  workload.shape.output = Fixed(2);
  Simulate(workload, GetParam().policy, kCache, {&waits});
  ASSERT_EQ(waits.seconds.size(), 500u);
  for (std::size_t k = 0; k < 500; ++k) {
    EXPECT_NEAR(waits.seconds[k], 0.01 * static_cast<double>(k), 1e-12);
  }
}

// The utilisation law: busy time = requests * service time, in an unsaturated server too.
TEST_P(SingleServerTest, TheServerIsBusyForTheSumOfServices) {
  WorkloadConfig workload = Arrivals(ArrivalConfig::Kind::kPoisson, 20, 3'000);
  workload.shape.output = Fixed(3);
  MetricsCollector metrics({});
  Simulate(workload, GetParam().policy, kCache, {&metrics});
  const Summary summary = metrics.Summarise();
  // From the first arrival to the last end.
  const double seconds = 3'000.0 / summary.Number("request_throughput");
  EXPECT_NEAR(summary.Number("busy_share") * seconds, 3'000 * 3 * 0.01, 1e-6);
}

// M/G/1, shortest job first without preemption: a request with k tokens waits
// R / ((1 - rho_{k-1}) (1 - rho_k)), where R = lambda E[S^2] / 2 and rho_k is the load of the
// requests with at most k tokens (Cobham 1954; Kleinrock, volume 2, 1976, chapter 3). Outputs of 1,
// 2 or 3 tokens, lambda = 35/s: rho = 0.7.
TEST(OrderedServerTest, ShortestJobFirstWaitsAsInMG1WithPriorities) {
  WorkloadConfig workload = Arrivals(ArrivalConfig::Kind::kPoisson, 35, 105'000);
  workload.shape.output = Uniform(1, 3);
  workload.prediction.kind = PredictionConfig::Kind::kOracle;
  const double residual = 35 * (14.0 / 3 * 1e-4) / 2;
  double expected = 0;
  double rho = 0;
  for (const double tokens : {1.0, 2.0, 3.0}) {
    const double before = rho;
    rho += 35.0 / 3 * tokens * 0.01;
    expected += residual / ((1 - before) * (1 - rho)) / 3;
  }
  OrcaConfig shortest = OneSequence();
  shortest.order = OrderConfig{.kind = OrderConfig::Kind::kSjf};
  ExpectMeanWait(workload, shortest, expected);
}

double MeanSojourn(const WorkloadConfig& workload, OrderConfig::Kind kind) {
  VllmV1Config policy;
  policy.max_num_seqs = 1;
  policy.order = OrderConfig{.kind = kind};
  MetricsCollector metrics({});
  Simulate(workload, policy, kCache, {&metrics});
  return metrics.Summarise().Number("mean_e2el_ms");
}

// Whoever knows more serves better: the shortest remaining time is the least possible mean (Schrage
// 1968), and a noisy prediction is better than none.
TEST(OrderedServerTest, TheMeanSojournFallsWithWhatTheOrderKnows) {
  WorkloadConfig workload = Arrivals(ArrivalConfig::Kind::kPoisson, 10, 4'000);
  workload.shape.output = Uniform(1, 15);
  workload.prediction.kind = PredictionConfig::Kind::kOracle;
  const double srpt = MeanSojourn(workload, OrderConfig::Kind::kSrpt);
  const double sjf = MeanSojourn(workload, OrderConfig::Kind::kSjf);
  const double fcfs = MeanSojourn(workload, OrderConfig::Kind::kFcfs);
  workload.prediction = {.kind = PredictionConfig::Kind::kLogNormal, .sigma = 1};
  const double noisy = MeanSojourn(workload, OrderConfig::Kind::kSjf);
  EXPECT_LT(srpt, sjf);
  EXPECT_LT(sjf, noisy);
  EXPECT_LT(noisy, fcfs);
}

std::string NameOf(const ::testing::TestParamInfo<Server>& test) { return test.param.name; }
void PrintTo(const Server& server, std::ostream* out) { *out << server.name; }

INSTANTIATE_TEST_SUITE_P(Servers, SingleServerTest, ::testing::ValuesIn(SingleServers()), NameOf);

// Little's law over a finished run: the integral of the requests in the system over time is the sum
// of the times that they spend there. Both are whole nanoseconds, so they are equal exactly.
class LittlesLaw final : public RunListener {
 public:
  void OnLoad(TimePoint from, TimePoint to, const Load& load) override {
    request_time += (to - from) * (load.waiting + load.running + load.swapped);
  }
  void OnEnded(const RequestLife& life) override {
    sojourns += life.ended - life.arrival;
    ++ended;
    preempted += life.preemptions;
  }
  Duration request_time{0};
  Duration sojourns{0};
  std::int64_t ended = 0;
  std::int64_t preempted = 0;
};

VllmV0Config Swapping() {
  VllmV0Config config;
  config.preemption_mode = VllmV0Config::PreemptionMode::kSwap;
  return config;
}

VllmV1Config Asynchronous() {
  VllmV1Config config;
  config.async_scheduling = true;
  return config;
}

std::vector<Server> AllPolicies() {
  return {{"static", OneRow(false)},         {"orca", OrcaConfig{}},
          {"vllm_v0_swap", Swapping()},      {"vllm_v1", VllmV1Config{}},
          {"vllm_v1_ahead", Asynchronous()}, {"sarathi", SarathiConfig{}},
          {"splitfuse", SplitFuseConfig{}},  {"tgi_v2", TgiV2Config{}},
          {"tgi_v3", TgiV3Config{}},         {"trtllm", TrtllmConfig{}},
          {"triton", TritonConfig{}},        {"lightllm", LightllmConfig{}},
          {"splitwise", SplitwiseConfig{}},  {"ship", ShipConfig{.pipeline_parallel_size = 3}}};
}

class LittlesLawTest : public ::testing::TestWithParam<Server> {};

// 60 blocks for bursts of requests that want up to 10 each: policies that preempt do so.
TEST_P(LittlesLawTest, RequestsInTheSystemAddUpToTheirSojourns) {
  WorkloadConfig workload = Arrivals(ArrivalConfig::Kind::kGamma, 9, 3'000);
  workload.arrivals.cv = 3;
  workload.shape.prompt = Uniform(1, 100);
  workload.shape.output = Uniform(1, 60);
  PolicyConfig policy = GetParam().policy;
  if (auto* one = policy.If<StaticConfig>()) *one = {false, 4, 160};
  if (auto* batcher = policy.If<TritonConfig>()) {
    batcher->max_batch_size = 4;
    batcher->max_queue_delay_microseconds = 1'000;
    batcher->padded = false;
    batcher->max_model_len = 160;
  }
  LittlesLaw law;
  Simulate(workload, policy, {.block_size = 16, .blocks = 60, .host_blocks = 60}, {&law});
  EXPECT_EQ(law.ended, 3'000);
  EXPECT_EQ(law.request_time, law.sojourns);
  if (GetParam().name.starts_with("vllm")) {
    EXPECT_GT(law.preempted, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, LittlesLawTest, ::testing::ValuesIn(AllPolicies()), NameOf);

}  // namespace
}  // namespace twin
