// What the simulated loop costs, engine and world together, and the operations under it.
#include <benchmark/benchmark.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/arrival_source.h"
#include "core/random.h"
#include "run/record/metrics_collector.h"
#include "run/record/plan_digest.h"
#include "run/record/recording_world.h"
#include "run/record/request_tracker.h"
#include "run/replica_windows.h"
#include "sched/cache/kv_pool.h"
#include "sched/cluster.h"
#include "sched/engine.h"
#include "sched/policy/registry.h"
#include "sched/policy/waiting_queue.h"
#include "sched/route/router.h"
#include "sched/serve.h"
#include "sim/cost/linear_cost.h"
#include "sim/world/sim_world.h"

namespace twin {
namespace {

// Poisson arrivals of drawn lengths, up to 1024 + 256 tokens; allocates nothing.
class DrawnRequests final : public ArrivalSource {
 public:
  DrawnRequests(std::int64_t requests, double rate) : left_(requests), mean_gap_s_(1 / rate) {
    Draw();
  }

  const TracedRequest* Peek() override { return left_ > 0 ? &next_ : nullptr; }
  void Take() override {
    --left_;
    Draw();
  }
  void OnDone(RequestId /*id*/, TimePoint /*now*/, std::int32_t /*answer_tokens*/) override {}
  [[nodiscard]] bool reacts() const override { return false; }

 private:
  void Draw() {
    next_.arrival += DurationFromSeconds(random_.Exponential(mean_gap_s_));
    next_.prompt_tokens = static_cast<std::int32_t>(random_.UniformInt(1, 1024));
    next_.output_tokens = static_cast<std::int32_t>(random_.UniformInt(1, 256));
    next_.max_output_tokens = next_.output_tokens;
  }

  Random random_{17, "benchmark"};
  std::int64_t left_;
  double mean_gap_s_;
  TracedRequest next_{};
};

// Counts steps, and items of work, on their way.
class CountingWorld final : public World {
 public:
  explicit CountingWorld(World& inner) : inner_(inner) {}
  Instant Advance(TimePoint wake_at) override { return inner_.Advance(wake_at); }
  void Launch(const StepPlan& plan) override {
    ++steps;
    items += static_cast<std::int64_t>(plan.work.size());
    inner_.Launch(plan);
  }

  std::int64_t steps = 0;
  std::int64_t items = 0;

 private:
  World& inner_;
};

// A run of 2000 requests from an empty to an empty system, so that its beginning, when memory is
// still being allocated, weighs little.
void Simulate(benchmark::State& state, const PolicyConfig& policy) {
  constexpr std::int64_t kRequests = 2'000;
  // About 23 requests run at a time where batching is continuous.
  const sim::LinearCost cost({.host_s = 1e-3,
                              .base_s = 8e-3,
                              .per_prefill_token_s = 4e-5,
                              .per_decode_context_token_s = 2e-8},
                             1);
  KvPoolConfig kv{.block_size = 16, .blocks = 4'000, .host_blocks = 4'000};
  kv.release_order = TraitsOf(policy).release_order;
  std::int64_t steps = 0;
  std::int64_t items = 0;
  for (auto _ : state) {
    DrawnRequests source(kRequests, 14);
    sim::SimWorld simulated(source, cost, {});
    CountingWorld world(simulated);
    Engine engine(EngineConfig{.kv = kv, .plans_per_instant_max = 0}, MakePolicy(policy, kv));
    Serve(engine, world);
    engine.CheckDrained();
    steps += world.steps;
    items += world.items;
  }
  const auto rate = [](std::int64_t count) {
    return benchmark::Counter(static_cast<double>(count), benchmark::Counter::kIsRate);
  };
  state.counters["requests_per_second"] = rate(kRequests * state.iterations());
  state.counters["steps_per_second"] = rate(steps);
  state.counters["items_per_step"] = static_cast<double>(items) / static_cast<double>(steps);
}

VllmV1Config Ahead() {
  VllmV1Config config;
  config.async_scheduling = true;
  return config;
}

BENCHMARK_CAPTURE(Simulate, static, StaticConfig{})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Simulate, orca, OrcaConfig{})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Simulate, vllm_v0, VllmV0Config{})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Simulate, vllm_v1, VllmV1Config{})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Simulate, vllm_v1_ahead, Ahead())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Simulate, sarathi, SarathiConfig{})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Simulate, splitfuse, SplitFuseConfig{})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Simulate, sglang, SglangConfig{})->Unit(benchmark::kMillisecond);

// How the replicas of BM_Cluster are served: instant by instant behind a router that knows loads at
// once, or one after the other behind one that knows none, or hears of them 100 ms later.
enum Serving : std::int64_t { kInTime, kAhead, kAheadOfNews };

// 200 requests for each of range(0) replicas, with prefix caching, digest and metrics: the time of
// a step is the inverse of steps_per_second.
void BM_Cluster(benchmark::State& state) {
  const auto replicas = static_cast<std::int32_t>(state.range(0));
  const std::int64_t serving = state.range(1);
  const sim::LinearCost cost({.host_s = 1e-3,
                              .base_s = 8e-3,
                              .per_prefill_token_s = 4e-5,
                              .per_decode_context_token_s = 2e-8},
                             1);
  const KvPoolConfig kv{.block_size = 16, .blocks = 4'000};
  const PolicyConfig policy = VllmV1Config{.enable_prefix_caching = true};
  const RouterKind router =
      serving == kAhead ? RouterKind::kRoundRobin : RouterKind::kLeastRequests;
  const Duration delay = std::chrono::milliseconds(serving == kAheadOfNews ? 100 : 0);
  std::uint64_t steps = 0;
  for (auto _ : state) {
    DrawnRequests source(200 * replicas, 14.0 * replicas);
    sim::SimWorld simulated(source, cost,
                            {.named_block_size = kv.block_size, .replicas = replicas});
    std::vector<std::unique_ptr<Engine>> engines;
    for (std::int32_t i = 0; i < replicas; ++i) {
      engines.push_back(
          std::make_unique<Engine>(EngineConfig{.kv = kv, .replica = i}, MakePolicy(policy, kv)));
    }
    Cluster cluster(std::move(engines), MakeRouter({.kind = router}, replicas, kv.block_size, 1),
                    delay);
    MetricsCollector metrics({.goal = {}, .replicas = replicas});
    RunListener* const listeners[] = {&metrics};
    RequestTracker tracker({kv.blocks, Delivery::kPerStep, {}}, listeners);
    PlanDigest digest;
    if (serving == kInTime) {
      RunObserver* const observers[] = {&digest, &tracker};
      RecordingWorld world(simulated, observers);
      Serve(cluster, world);
    } else {
      LogPlayer player(listeners);
      RunObserver* const observers[] = {&digest};
      run::ReplicaWindows server(cluster, simulated, tracker, player, observers, 1);
      while (server.ServeWindow()) {
      }
      server.ShowServed();
    }
    cluster.CheckDrained();
    steps += digest.plans();
  }
  state.counters["steps_per_second"] =
      benchmark::Counter(static_cast<double>(steps), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_Cluster)
    ->ArgsProduct({{1, 8, 100, 1000}, {kInTime, kAhead, kAheadOfNews}})
    ->Unit(benchmark::kMillisecond);

// So many users, each of whom sends a request as soon as the one before has its `output` tokens.
// They stay in step, so that all requests of a batch begin and end together.
class Batch final : public ArrivalSource {
 public:
  Batch(std::int64_t users, std::int32_t output) : left_(users) {
    next_.output_tokens = next_.max_output_tokens = output;
    DrawPrompt();
  }

  const TracedRequest* Peek() override { return left_ > 0 ? &next_ : nullptr; }
  void Take() override {
    --left_;
    DrawPrompt();
  }
  void OnDone(RequestId /*id*/, TimePoint now, std::int32_t /*answer_tokens*/) override {
    ++left_;
    next_.arrival = now;
  }

 private:
  void DrawPrompt() { next_.prompt_tokens = static_cast<std::int32_t>(random_.UniformInt(1, 64)); }

  Random random_{23, "batch"};
  std::int64_t left_;
  TracedRequest next_{};
};

// The policy with room for a batch of `size` requests.
template <class Config>
PolicyConfig Sized(std::int32_t size) {
  constexpr std::int32_t kTokens = 1 << 17;
  Config config;
  if constexpr (std::is_same_v<Config, OrcaConfig>) {
    config.max_bs = size;
  } else if constexpr (std::is_same_v<Config, StaticConfig>) {
    config.max_batch_size = size;
    config.padded = true;
  } else if constexpr (std::is_same_v<Config, SplitFuseConfig>) {
    config.max_ragged_sequence_count = size;
    config.max_ragged_batch_size = kTokens;
  } else {
    config.max_num_seqs = size;
    if constexpr (std::is_same_v<Config, SarathiConfig>) {
      config.chunk_size = kTokens;
    } else {
      config.max_num_batched_tokens = kTokens;
    }
    if constexpr (std::is_same_v<Config, VllmV1Config>) {
      config.async_scheduling = config.enable_prefix_caching = true;
    }
  }
  return config;
}

// One step of a batch of range(0) requests with outputs of range(1) tokens, with digest and
// metrics: outputs of one token make every step a prefill, long ones make nearly every step a
// decode.
template <class Config>
void BM_Step(benchmark::State& state) {
  const auto size = static_cast<std::int32_t>(state.range(0));
  const auto output = static_cast<std::int32_t>(state.range(1));
  const PolicyConfig policy = Sized<Config>(size);
  const PolicyTraits traits = TraitsOf(policy);
  KvPoolConfig kv{.block_size = 16, .blocks = size * (output / 16 + 6)};
  kv.release_order = traits.release_order;
  const sim::LinearCost cost({.base_s = 8e-3, .per_decode_context_token_s = 2e-8}, 1);
  Batch source(size, output);
  sim::SimWorld simulated(source, cost,
                          {.named_block_size = traits.caches_prefixes ? kv.block_size : 0});
  Engine engine(EngineConfig{.kv = kv, .plans_per_instant_max = 0}, MakePolicy(policy, kv));
  MetricsCollector metrics({});
  RunListener* const listeners[] = {&metrics};
  RequestTracker tracker({kv.blocks, traits.delivery, {}}, listeners);
  PlanDigest digest;
  RunObserver* const observers[] = {&digest, &tracker};
  RecordingWorld world(simulated, observers);
  for (auto _ : state) {
    const std::uint64_t steps = digest.plans();
    while (digest.plans() == steps) {
      const Instant instant = world.Advance(kTimeNever);
      for (const Event& event : instant.events) engine.Handle(event);
      while (const StepPlan* plan = engine.PlanStep(instant.now)) world.Launch(*plan);
    }
  }
}

void BatchSizes(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t output : {4000, 1}) {
    for (const std::int64_t size : {16, 64, 256, 1024}) benchmark->Args({size, output});
  }
}

BENCHMARK_TEMPLATE(BM_Step, StaticConfig)->Apply(BatchSizes);
BENCHMARK_TEMPLATE(BM_Step, OrcaConfig)->Apply(BatchSizes);
BENCHMARK_TEMPLATE(BM_Step, VllmV0Config)->Apply(BatchSizes);
BENCHMARK_TEMPLATE(BM_Step, VllmV1Config)->Apply(BatchSizes);
BENCHMARK_TEMPLATE(BM_Step, SarathiConfig)->Apply(BatchSizes);
BENCHMARK_TEMPLATE(BM_Step, SplitFuseConfig)->Apply(BatchSizes);

constexpr KvPoolConfig kPool{.block_size = 16, .blocks = 4'096, .host_blocks = 4'096};

// One token more for a sequence: a new block every 16th time.
void BM_KvPoolGrowsByATokenAndReleases(benchmark::State& state) {
  constexpr std::int32_t kTokens = 2'048;
  KvPool pool(kPool);
  BlockTable table;
  std::int32_t tokens = 0;
  for (auto _ : state) {
    if (tokens == kTokens) {
      pool.Release(table);
      tokens = 0;
    }
    benchmark::DoNotOptimize(pool.Grow(table, ++tokens));
  }
  pool.Release(table);
}
BENCHMARK(BM_KvPoolGrowsByATokenAndReleases);

// A prompt's blocks all at once, and back: the argument is their number.
void BM_KvPoolTakesAndReleasesAPrompt(benchmark::State& state) {
  const auto blocks = static_cast<std::int32_t>(state.range(0));
  KvPool pool(kPool);
  BlockTable table;
  for (auto _ : state) {
    benchmark::DoNotOptimize(pool.Grow(table, blocks * kPool.block_size));
    pool.Release(table);
  }
  state.SetItemsProcessed(state.iterations() * blocks);
}
BENCHMARK(BM_KvPoolTakesAndReleasesAPrompt)->Arg(4)->Arg(64)->Arg(1024);

void BM_KvPoolSwapsOutAndIn(benchmark::State& state) {
  const auto blocks = static_cast<std::int32_t>(state.range(0));
  KvPool pool(kPool);
  BlockTable table;
  if (!pool.Grow(table, blocks * kPool.block_size)) state.SkipWithError("too few blocks");
  for (auto _ : state) {
    benchmark::DoNotOptimize(pool.SwapOut(table));
    benchmark::DoNotOptimize(pool.SwapIn(table));
  }
  pool.Release(table);
  state.SetItemsProcessed(state.iterations() * blocks);
}
BENCHMARK(BM_KvPoolSwapsOutAndIn)->Arg(64);

// A prompt of 64 blocks that is wholly cached: looked up, attached, released.
void BM_KvPoolFindsACachedPrompt(benchmark::State& state) {
  constexpr std::int32_t kBlocks = 64;
  KvPool pool(kPool);
  std::vector<BlockKey> keys;
  for (std::uint64_t i = 1; i <= kBlocks; ++i) keys.push_back(SharedKey(i * 0x9E3779B97F4A7C15ull));
  BlockTable first;
  if (!pool.Grow(first, kBlocks * kPool.block_size)) state.SkipWithError("too few blocks");
  pool.Publish(first, keys, kBlocks);
  BlockTable table;
  for (auto _ : state) {
    const CacheHit hit = pool.Lookup(keys, kBlocks);
    pool.Attach(table, keys, hit.blocks);
    pool.Release(table);
  }
  pool.Release(first);
  state.SetItemsProcessed(state.iterations() * kBlocks);
}
BENCHMARK(BM_KvPoolFindsACachedPrompt);

// An arrival and an admission at a queue of so many.
void PushAndPop(benchmark::State& state, QueueOrder order) {
  const auto length = static_cast<std::uint32_t>(state.range(0));
  Random random(3, "queue");
  std::array<std::int32_t, 256> priorities{};
  for (std::int32_t& priority : priorities) {
    priority = static_cast<std::int32_t>(random.UniformInt(0, 9));
  }
  WaitingQueue queue(order);
  std::uint32_t next = 0;
  while (next < length) {
    queue.PushArrival(RequestId{next}, priorities[next % priorities.size()]);
    ++next;
  }
  for (auto _ : state) {
    queue.PushArrival(RequestId{next}, priorities[next % priorities.size()]);
    ++next;
    benchmark::DoNotOptimize(queue.front());
    queue.PopFront();
  }
}
BENCHMARK_CAPTURE(PushAndPop, fcfs, QueueOrder::kFcfs)->Arg(0)->Arg(1000);
BENCHMARK_CAPTURE(PushAndPop, priority, QueueOrder::kPriority)->Arg(0)->Arg(1000);

// A victim goes back to its place and is admitted again.
void BM_WaitingQueueTakesAVictimBack(benchmark::State& state) {
  WaitingQueue queue(QueueOrder::kFcfs);
  for (std::uint32_t i = 1; i <= 1'000; ++i) queue.PushArrival(RequestId{i}, 0);
  for (auto _ : state) {
    queue.PushPreempted(RequestId{0}, 0);
    benchmark::DoNotOptimize(queue.front());
    queue.PopFront();
  }
}
BENCHMARK(BM_WaitingQueueTakesAVictimBack);

}  // namespace
}  // namespace twin
