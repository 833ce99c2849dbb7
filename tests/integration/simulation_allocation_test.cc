// A simulated run allocates nothing per step, so memory does not grow with the number of requests.
// The tests count calls of the global operator new.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <ostream>
#include <string>
#include <vector>

#include "core/arrival_source.h"
#include "core/random.h"
#include "run/record/metrics_collector.h"
#include "run/record/plan_digest.h"
#include "run/record/recording_world.h"
#include "run/record/request_tracker.h"
#include "sched/engine.h"
#include "sched/policy/registry.h"
#include "sched/serve.h"
#include "sim/cost/linear_cost.h"
#include "sim/world/sim_world.h"

namespace {
std::int64_t allocations = 0;
}  // namespace

// Not inlined: GCC 12 would pair the library's new with free and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}

namespace twin {
namespace {

constexpr std::uint32_t kWarmUp = 100'000;
constexpr std::uint32_t kRequests = 120'000;

// A closed loop: so many requests are in the system until the last ones drain.
class ConstantCrowd final : public ArrivalSource {
 public:
  ConstantCrowd() { Draw(); }

  const TracedRequest* Peek() override {
    return outstanding_ < kCrowd && taken_ < kRequests ? &next_ : nullptr;
  }
  void Take() override {
    ++outstanding_;
    ++taken_;
    Draw();
  }
  void OnDone(RequestId /*id*/, TimePoint now, std::int32_t /*answer_tokens*/) override {
    --outstanding_;
    next_.arrival = now;
  }

 private:
  static constexpr int kCrowd = 30;

  void Draw() {
    next_.prompt_tokens = static_cast<std::int32_t>(random_.UniformInt(1, 200));
    next_.output_tokens = static_cast<std::int32_t>(random_.UniformInt(1, 20));
    next_.max_output_tokens = next_.output_tokens;
  }

  Random random_{5, "crowd"};
  TracedRequest next_;
  int outstanding_ = 0;
  std::uint32_t taken_ = 0;
};

// Counts what is allocated from the warm-up's last arrival to the last of all.
class CountedWorld final : public World {
 public:
  CountedWorld(World& inner, const sim::SimWorld& arrivals) : inner_(inner), arrivals_(arrivals) {}

  Instant Advance(TimePoint wake_at) override {
    const Instant instant = inner_.Advance(wake_at);
    if (arrivals_.arrived() >= kWarmUp && before < 0) before = allocations;
    if (arrivals_.arrived() >= kRequests && after < 0) after = allocations;
    return instant;
  }
  void Launch(const StepPlan& plan) override { inner_.Launch(plan); }

  std::int64_t before = -1;
  std::int64_t after = -1;

 private:
  World& inner_;
  const sim::SimWorld& arrivals_;
};

struct Case {
  std::string name;
  PolicyConfig policy;
};

void PrintTo(const Case& test_case, std::ostream* out) { *out << test_case.name; }

class SimulationAllocationTest : public ::testing::TestWithParam<Case> {};

// 150 blocks of 16 tokens for 30 requests of up to 14: policies that preempt do so.
TEST_P(SimulationAllocationTest, NothingIsAllocatedPerStepAfterWarmUp) {
  ConstantCrowd source;
  const sim::LinearCost cost(
      {.base_s = 1e-3, .per_prefill_token_s = 1e-5, .per_decode_context_token_s = 1e-7}, 1);
  sim::SimWorld simulated(source, cost, {});
  KvPoolConfig kv{.block_size = 16, .blocks = 150, .host_blocks = 150};
  kv.release_order = TraitsOf(GetParam().policy).release_order;
  Engine engine(EngineConfig{.kv = kv, .plans_per_instant_max = 0},
                MakePolicy(GetParam().policy, kv));
  MetricsCollector metrics({});
  RunListener* const listeners[] = {&metrics};
  RequestTracker tracker({kv.blocks, engine.policy().traits().delivery, {}}, listeners);
  PlanDigest digest;
  RunObserver* const observers[] = {&digest, &tracker};
  RecordingWorld recorded(simulated, observers);
  CountedWorld world(recorded, simulated);
  Serve(engine, world);

  EXPECT_GT(world.before, 0);
  EXPECT_EQ(world.after - world.before, 0);
  EXPECT_EQ(metrics.Summarise().Number("completed"), kRequests);
}

std::vector<Case> Cases() {
  VllmV0Config swapping;
  swapping.preemption_mode = VllmV0Config::PreemptionMode::kSwap;
  VllmV1Config ahead;
  ahead.async_scheduling = true;
  VllmV1Config important;
  important.policy = QueueOrder::kPriority;
  std::vector<Case> cases = {
      {"vllm_v0_swap", swapping}, {"vllm_v1_ahead", ahead}, {"vllm_v1_priority", important}};
  for (const PolicyConfig& config : DefaultPolicyConfigs()) {
    cases.push_back({std::string(TraitsOf(config).name), config});
    // By default requests starve for seconds, and the window of live requests still grows.
    if (auto* fastserve = cases.back().policy.If<FastServeConfig>()) {
      fastserve->starvation_period = 10;
      fastserve->starvation_threshold = std::chrono::milliseconds(100);
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Policies, SimulationAllocationTest, ::testing::ValuesIn(Cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace twin
