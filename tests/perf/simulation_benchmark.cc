// What the simulated loop costs, engine and world together, and the operations under it.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/arrival_source.h"
#include "core/random.h"
#include "sched/cache/kv_pool.h"
#include "sched/engine.h"
#include "sched/policy/registry.h"
#include "sched/policy/waiting_queue.h"
#include "sched/serve.h"
#include "sim/cost/linear_cost.h"
#include "sim/sim_world.h"

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
  void OnDone(RequestId /*id*/, TimePoint /*now*/) override {}

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
  Instant Advance() override { return inner_.Advance(); }
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
