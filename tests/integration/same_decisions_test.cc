// Replaying a real run gives the same plans; a policy that reads a clock is detected.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "core/random.h"
#include "core/ring_queue.h"
#include "run/record/plan_digest.h"
#include "run/record/recorded_run.h"
#include "run/record/recording_world.h"
#include "run/record/replay_world.h"
#include "sched/engine.h"
#include "sched/policy/registry.h"
#include "sched/serve.h"
#include "sched/step_builder.h"
#include "tests/support/threaded_world.h"

namespace twin::testing {
namespace {

constexpr KvPoolConfig kSmallPool{.block_size = 4, .blocks = 14, .host_blocks = 20};

// Enough at once to run out of memory again and again; every fourth stops early.
std::vector<TracedRequest> Requests() {
  Random random(7, "same decisions");
  std::vector<TracedRequest> requests;
  TimePoint arrival = kTimeZero;
  for (int i = 0; i < 80; ++i) {
    TracedRequest request;
    if (i % 5 > 0) arrival += std::chrono::microseconds(random.UniformInt(10, 150));
    request.arrival = arrival;
    request.prompt_tokens = static_cast<std::int32_t>(random.UniformInt(1, 20));
    request.max_output_tokens = static_cast<std::int32_t>(random.UniformInt(2, 20));
    request.output_tokens = request.max_output_tokens - (i % 4 == 0 ? 1 : 0);
    request.priority = static_cast<std::int32_t>(random.UniformInt(0, 2));
    requests.push_back(request);
  }
  return requests;
}

struct Counts final : public RunObserver {
  void OnInstant(const Instant& /*instant*/) override {}
  void OnPlan(TimePoint /*now*/, const StepPlan& plan) override {
    preemptions += plan.preempted.size();
  }
  std::size_t preemptions = 0;
};

using MakeOne = std::function<std::unique_ptr<Policy>()>;

struct Outcome {
  std::uint64_t digest = 0;
  std::uint64_t replayed_digest = 0;
  std::uint64_t plans = 0;
  std::uint64_t equal_plans = 0;
  std::size_t preemptions = 0;
  std::string difference;
};

// Records a run on real threads and replays the record through a new engine.
Outcome RecordAndReplay(const MakeOne& make, const KvPoolConfig& pool) {
  Outcome outcome;
  EngineConfig config;
  config.kv = pool;
  RecordedRun run;
  PlanDigest digest;
  Counts counts;
  {
    Engine engine(config, make());
    ThreadedWorld inner(Requests());
    RecordingWorld world(inner, std::array<RunObserver*, 3>{&run, &digest, &counts});
    Serve(engine, world);
    engine.CheckDrained();
  }
  outcome.digest = digest.value();
  outcome.plans = digest.plans();
  outcome.preemptions = counts.preemptions;

  Engine engine(config, make());
  RecordedRunSource source(run);
  ReplayWorld inner(source);
  PlanDigest replayed;
  RecordingWorld world(inner, std::array<RunObserver*, 1>{&replayed});
  Serve(engine, world);
  outcome.replayed_digest = replayed.value();
  outcome.equal_plans = inner.equal_plans();
  if (inner.difference()) outcome.difference = inner.difference()->text();
  return outcome;
}

struct Named {
  std::string name;
  PolicyConfig config;
};

void PrintTo(const Named& policy, std::ostream* out) { *out << policy.name; }

VllmV0Config V0(VllmV0Config::PreemptionMode mode) {
  VllmV0Config config;
  config.max_num_seqs = 8;
  config.max_num_batched_tokens = config.max_model_len = 64;
  config.preemption_mode = mode;
  return config;
}

VllmV1Config V1(bool async, QueueOrder order) {
  VllmV1Config config;
  config.max_num_batched_tokens = 24;
  config.max_num_seqs = 8;
  config.max_model_len = 56;
  config.async_scheduling = async;
  config.policy = order;
  return config;
}

std::vector<Named> PreemptingPolicies() {
  SarathiConfig sarathi;
  sarathi.chunk_size = 12;
  sarathi.pipeline_parallel_size = 2;
  SplitFuseConfig splitfuse;
  splitfuse.max_ragged_batch_size = 16;
  SglangConfig sglang;
  sglang.overlap = false;
  sglang.init_new_token_ratio = 0.0;
  return {{"vllm_v0", V0(VllmV0Config::PreemptionMode::kRecompute)},
          {"vllm_v0_swap", V0(VllmV0Config::PreemptionMode::kSwap)},
          {"vllm_v1", V1(false, QueueOrder::kFcfs)},
          {"vllm_v1_async", V1(true, QueueOrder::kFcfs)},
          {"vllm_v1_async_priority", V1(true, QueueOrder::kPriority)},
          {"sarathi_pipeline", sarathi},
          {"splitfuse", splitfuse},
          {"sglang", sglang}};
}

class SameDecisionsTest : public ::testing::TestWithParam<Named> {};

TEST_P(SameDecisionsTest, ReplayingARealRunGivesTheSamePlans) {
  for (int repeat = 0; repeat < 5; ++repeat) {
    const Outcome outcome =
        RecordAndReplay([] { return MakePolicy(GetParam().config, kSmallPool); }, kSmallPool);
    EXPECT_EQ(outcome.difference, "");
    EXPECT_EQ(outcome.digest, outcome.replayed_digest);
    EXPECT_EQ(outcome.equal_plans, outcome.plans);
    EXPECT_GT(outcome.plans, 50u);
    EXPECT_GT(outcome.preemptions, 0u) << "the pool is too large to prove anything";
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, SameDecisionsTest, ::testing::ValuesIn(PreemptingPolicies()),
                         [](const auto& named) { return named.param.name; });

// Schedules one prompt or one token per step, of a request chosen by the wall clock.
class ClockReadingPolicy final : public Policy {
 public:
  ClockReadingPolicy() { traits_.name = "clock"; }

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override { waiting_.PushBack(sequence.id); }
  void Remove(const Sequence& sequence) override {
    if (std::erase(running_, sequence.id) == 0) waiting_.Erase(sequence.id);
  }
  void Plan(StepBuilder& step) override {
    if (!waiting_.empty() && running_.size() < 2) {
      step.Admit(waiting_.front());
      running_.push_back(waiting_.PopFront());
    }
    if (running_.empty()) return;
    const auto ticks = std::chrono::steady_clock::now().time_since_epoch().count();
    const RequestId id = running_[static_cast<std::size_t>(ticks / 100) % running_.size()];
    const std::int32_t known = step.sequence(id).known;
    ASSERT_TRUE(step.Grow(id, known));
    step.Schedule(id, known - step.sequence(id).computed);
  }

 private:
  PolicyTraits traits_;
  RingQueue<RequestId> waiting_;
  std::vector<RequestId> running_;
};

TEST(ClockTest, APolicyThatReadsAClockIsFoundOut) {
  const Outcome outcome = RecordAndReplay([] { return std::make_unique<ClockReadingPolicy>(); },
                                          {.block_size = 4, .blocks = 24});
  EXPECT_NE(outcome.digest, outcome.replayed_digest);
  EXPECT_LT(outcome.equal_plans, outcome.plans);
  EXPECT_NE(outcome.difference.find("first difference at"), std::string::npos);
}

}  // namespace
}  // namespace twin::testing
