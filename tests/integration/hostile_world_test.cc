// Runs every policy in thousands of random worlds in which everything that may go wrong does.
//
// More seeds: --seeds=N (a million takes about a minute per mode when optimised); one seed:
// --first_seed=S --seeds=1. Also as TWIN_HOSTILE_SEEDS and TWIN_HOSTILE_FIRST_SEED.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "run/hostile/streak_plans.h"
#include "run/record/plan_digest.h"
#include "run/record/plan_text.h"
#include "run/record/recording_world.h"
#include "sched/engine.h"
#include "sched/policy/orca.h"
#include "sched/policy/policy_config.h"
#include "sched/policy/vllm_v1.h"
#include "sched/serve.h"
#include "tests/support/hostile_groups.h"
#include "tests/support/hostile_policies.h"
#include "tests/support/hostile_run.h"

namespace twin::testing {
namespace {

std::uint64_t seeds = 500;
std::uint64_t first_seed = 1;

// The present case, printed if a CHECK aborts.
std::array<char, 256> present_case{};

void SayCase(int /*signal*/) {
  const ssize_t written =
      write(STDERR_FILENO, present_case.data(), std::strlen(present_case.data()));
  static_cast<void>(written);
}

void Announce(const std::string& mode, std::uint64_t seed) {
  const std::string text = "  in mode " + mode + ", seed " + std::to_string(seed) + "\n";
  text.copy(present_case.data(), present_case.size() - 1);
  present_case[std::min(text.size(), present_case.size() - 1)] = '\0';
}

// The latest plans as text.
class TailRecorder final : public RunObserver {
 public:
  void OnInstant(const Instant& /*instant*/) override {}
  void OnPlan(TimePoint /*now*/, const StepPlan& plan) override {
    if (plans_.size() == 12) plans_.pop_front();
    plans_.push_back(PlanText(plan));
  }
  [[nodiscard]] std::string text() const {
    std::string text;
    for (const std::string& plan : plans_) text += "  " + plan + "\n";
    return text;
  }

 private:
  std::deque<std::string> plans_;
};

// The events and plans that led to a failure.
std::string Story(const HostileCase& c) {
  TailRecorder tail;
  try {
    RunHostileCase(c, tail);
  } catch (const std::exception&) {
    return tail.text();
  }
  return "  it does not fail again\n";
}

// Whether prefill and decode can be apart.
bool Separates(const PolicyMode& mode) {
  const DrawnPolicy policy = DrawHostileCase(mode, 1).policy;
  return TraitsOf(policy.config).receives_kv && !policy.kv_groups;
}

class HostileWorldTest : public ::testing::TestWithParam<PolicyMode> {};

TEST_P(HostileWorldTest, LosesNothingAndEnds) {
  int failures = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + seeds && failures < 3; ++seed) {
    Announce(GetParam().name, seed);
    const HostileCase c = DrawHostileCase(GetParam(), seed);
    try {
      DigestOf(c);
    } catch (const std::exception& e) {
      ++failures;
      ADD_FAILURE() << e.what() << "\n  in mode " << GetParam().name << ", seed " << seed << ", "
                    << c.world.blocks << " blocks of " << c.world.block_size << " tokens\n"
                    << Story(c);
    }
  }
}

TEST_P(HostileWorldTest, DecidesTheSameTwice) {
  for (std::uint64_t seed = first_seed; seed < first_seed + std::min<std::uint64_t>(seeds, 20);
       ++seed) {
    Announce(GetParam().name, seed);
    const HostileCase c = DrawHostileCase(GetParam(), seed);
    EXPECT_EQ(DigestOf(c), DigestOf(c)) << "seed " << seed;
  }
}

// Every invariant holds in every replica, and no request is lost or served twice. One replica
// behind a router decides as an engine alone.
TEST_P(HostileWorldTest, AClusterLosesNothingAndDecidesTheSameTwice) {
  int failures = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + std::min<std::uint64_t>(seeds, 100);
       ++seed) {
    Announce(GetParam().name, seed);
    const HostileCase c = DrawHostileCluster(GetParam(), seed);
    try {
      PlanDigest first;
      PlanDigest second;
      RunHostileCluster(c, first);
      RunHostileCluster(c, second);
      EXPECT_EQ(first.value(), second.value()) << "seed " << seed;
      if (c.world.replicas > 1) continue;
      EXPECT_EQ(first.value(), DigestOf(c)) << "seed " << seed;
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what() << "\n  in mode " << GetParam().name << ", seed " << seed;
      if (++failures == 3) return;
    }
  }
}

// The same where some replicas prefill and others decode, and copies end late, or are of requests
// that were cancelled.
TEST_P(HostileWorldTest, SeparatePrefillAndDecodeLoseNothingAndDecideTheSameTwice) {
  if (!Separates(GetParam())) GTEST_SKIP();
  int failures = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + std::min<std::uint64_t>(seeds, 100);
       ++seed) {
    Announce(GetParam().name, seed);
    const HostileCase c = DrawHostileSplit(GetParam(), seed);
    try {
      PlanDigest first;
      PlanDigest second;
      RunHostileCluster(c, first);
      RunHostileCluster(c, second);
      EXPECT_EQ(first.value(), second.value()) << "seed " << seed;
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what() << "\n  in mode " << GetParam().name << ", seed " << seed;
      if (++failures == 3) return;
    }
  }
}

struct AskedCounts {
  std::int64_t plans = 0;          // that the policy made itself
  std::int64_t promises = 0;       // of decode streaks
  std::int64_t free_promises = 0;  // of these: of steps that come in one piece
  std::int64_t moments = 0;        // steps that came so
};

// Counts what a policy is asked for, and can withhold its promises of decode streaks.
class AskedPolicy final : public Policy {
 public:
  AskedPolicy(std::unique_ptr<Policy> inner, bool promises, AskedCounts& counts)
      : inner_(std::move(inner)), promises_(promises), counts_(counts) {}

  [[nodiscard]] const PolicyTraits& traits() const override { return inner_->traits(); }
  void Enqueue(const Sequence& sequence) override { inner_->Enqueue(sequence); }
  void Remove(const Sequence& sequence) override { inner_->Remove(sequence); }
  void StepReturned(const StepPlan& plan) override { inner_->StepReturned(plan); }
  void CollectReleases(std::vector<RequestId>& finished) override {
    inner_->CollectReleases(finished);
  }
  void Plan(StepBuilder& step) override {
    inner_->Plan(step);
    counts_.plans += step.plan().empty() ? 0 : 1;
  }
  [[nodiscard]] std::optional<DecodeLimits> DecodeStreakLimits() const override {
    std::optional<DecodeLimits> limits;
    if (promises_) limits = inner_->DecodeStreakLimits();
    counts_.promises += limits ? 1 : 0;
    counts_.free_promises +=
        limits && !limits->asks_each_step && inner_->DecodeStreakReversals().empty() ? 1 : 0;
    return limits;
  }
  [[nodiscard]] std::span<const std::int32_t> DecodeStreakReversals() const override {
    return inner_->DecodeStreakReversals();
  }
  [[nodiscard]] bool ContinueDecodeStreak(StepBuilder& step) override {
    return inner_->ContinueDecodeStreak(step);
  }
  void UpdateTree(const StepPlan& plan, KvEditor& blocks) override {
    inner_->UpdateTree(plan, blocks);
  }
  void Idle() override { inner_->Idle(); }
  [[nodiscard]] bool WantsAnotherCall() const override { return inner_->WantsAnotherCall(); }
  [[nodiscard]] TimePoint WakeAt() const override { return inner_->WakeAt(); }

 private:
  std::unique_ptr<Policy> inner_;
  bool promises_;
  AskedCounts& counts_;
};

// All plans of a run, whole.
class PlanRecorder final : public RunObserver {
 public:
  void OnInstant(const Instant& /*instant*/) override {}
  void OnPlan(TimePoint /*now*/, const StepPlan& plan) override { plans.push_back(plan); }
  [[nodiscard]] bool takes_streaks() const override { return true; }
  void OnStreak(const StreakPart& part) override {
    AppendPlans(part, plans);
    asked.moments += static_cast<std::int64_t>(part.moments.size());
  }

  std::vector<StepPlan> plans;
  AskedCounts asked;
};

PlanRecorder PlansOf(const HostileCase& c, const PolicyMaker& make_policy, bool promises) {
  PlanRecorder recorder;
  const auto make = [&](const KvPoolConfig& kv) -> std::unique_ptr<Policy> {
    return std::make_unique<AskedPolicy>(make_policy(kv), promises, recorder.asked);
  };
  if (c.split) {
    RunHostileCluster(c, make, recorder);
  } else {
    RunHostileCase(c, make(c.engine.kv), recorder);
  }
  return recorder;
}

// The number of steps that were repeated without asking the policy, whose plans must be equal.
std::int64_t CompareRuns(const HostileCase& c, AskedCounts& asked) {
  const auto make = [&c](const KvPoolConfig& kv) { return MakePolicy(c.policy.config, kv); };
  const PlanRecorder with = PlansOf(c, make, true);
  const PlanRecorder without = PlansOf(c, make, false);
  EXPECT_EQ(with.plans.size(), without.plans.size()) << "seed " << c.world.seed;
  for (std::size_t i = 0; i < std::min(with.plans.size(), without.plans.size()); ++i) {
    if (with.plans[i] == without.plans[i]) continue;
    ADD_FAILURE() << "seed " << c.world.seed << "\n  with runs    " << PlanText(with.plans[i])
                  << "\n  without runs " << PlanText(without.plans[i]);
    break;
  }
  EXPECT_EQ(without.asked.plans, static_cast<std::int64_t>(without.plans.size()));
  asked.promises += with.asked.promises;
  asked.free_promises += with.asked.free_promises;
  asked.moments += with.asked.moments;
  return without.asked.plans - with.asked.plans;
}

// Half of the cases without cancellations and with few arrivals, so that runs become long.
TEST_P(HostileWorldTest, DecodeStreaksPlanWhatThePolicyWould) {
  std::int64_t repeated = 0;
  AskedCounts asked;
  for (std::uint64_t seed = first_seed; seed < first_seed + std::min<std::uint64_t>(seeds, 200);
       ++seed) {
    Announce(GetParam().name, seed);
    HostileCase c = DrawHostileCase(GetParam(), seed);
    if (seed % 2 == 0) {
      c.world.cancels = false;
      c.world.requests_max = 4;
    }
    repeated += CompareRuns(c, asked);
    if (HasFailure()) return;
  }
  EXPECT_EQ(repeated > 0, asked.promises > 0);
  EXPECT_EQ(asked.moments > 0, asked.free_promises > 0);
}

// The same where requests come from other replicas, and some of them wait for blocks.
TEST_P(HostileWorldTest, DecodeStreaksInASeparatePoolPlanWhatThePolicyWould) {
  if (!Separates(GetParam())) GTEST_SKIP();
  std::int64_t repeated = 0;
  AskedCounts asked;
  for (std::uint64_t seed = first_seed; seed < first_seed + std::min<std::uint64_t>(seeds, 50);
       ++seed) {
    Announce(GetParam().name, seed);
    HostileCase c = DrawHostileSplit(GetParam(), seed);
    c.world.cancels = seed % 2 == 1;
    repeated += CompareRuns(c, asked);
    if (HasFailure()) return;
  }
  EXPECT_EQ(repeated > 0, asked.promises > 0);
}

INSTANTIATE_TEST_SUITE_P(Policies, HostileWorldTest, ::testing::ValuesIn(PolicyModes()),
                         [](const auto& mode) { return mode.param.name; });
INSTANTIATE_TEST_SUITE_P(KvGroups, HostileWorldTest, ::testing::ValuesIn(GroupModes()),
                         [](const auto& mode) { return mode.param.name; });

// Lets newcomers wait for 20 s while others are served, and promises decode streaks as if time did
// not matter.
class TimelessPolicy final : public Policy {
 public:
  explicit TimelessPolicy(std::unique_ptr<Policy> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] const PolicyTraits& traits() const override { return inner_->traits(); }
  void Enqueue(const Sequence& s) override { held_.push_back(s.id); }
  void Remove(const Sequence& s) override {
    if (std::erase(held_, s.id) > 0) return;
    inner_->Remove(s);
    --served_;
  }
  void Plan(StepBuilder& step) override {
    do {
      while (!held_.empty() && (served_ == 0 || step.now() - step.sequence(held_.front()).arrival >=
                                                    std::chrono::seconds(20))) {
        inner_->Enqueue(step.sequence(held_.front()));
        held_.pop_front();
        ++served_;
      }
      const std::size_t rejected = step.plan().rejected.size();
      inner_->Plan(step);
      served_ -= step.plan().rejected.size() - rejected;
    } while (served_ == 0 && !held_.empty());
  }
  [[nodiscard]] std::optional<DecodeLimits> DecodeStreakLimits() const override {
    return inner_->DecodeStreakLimits();
  }

 private:
  std::unique_ptr<Policy> inner_;
  std::deque<RequestId> held_;  // in order of arrival
  std::size_t served_ = 0;
};

TEST(HostileDefaultsTest, FindAPromiseThatIgnoresADefaultOfSeconds) {
  const PolicyMode mode = DefaultMode(OrcaConfig{});
  const auto make = [](const KvPoolConfig& /*kv*/) {
    return std::make_unique<TimelessPolicy>(std::make_unique<OrcaPolicy>(OrcaConfig{}));
  };
  bool found = false;
  for (std::uint64_t seed = 1; seed <= 200 && !found; ++seed) {
    Announce(mode.name, seed);
    const HostileCase c = DrawHostileCase(mode, seed);
    found = PlansOf(c, make, true).plans != PlansOf(c, make, false).plans;
  }
  EXPECT_TRUE(found);
}

// The work of all plans, without the memory behind it.
class WorkRecorder final : public RunObserver {
 public:
  void OnInstant(const Instant& /*instant*/) override {}
  void OnPlan(TimePoint /*now*/, const StepPlan& plan) override { steps_.push_back(plan.work); }
  [[nodiscard]] const std::vector<std::vector<WorkItem>>& steps() const { return steps_; }

 private:
  std::vector<std::vector<WorkItem>> steps_;
};

std::vector<std::vector<WorkItem>> WorkOf(const PolicyConfig& config,
                                          const HostileOptions& options) {
  EngineConfig engine_config;
  engine_config.kv.block_size = options.block_size;
  engine_config.kv.blocks = options.blocks;
  Engine engine(engine_config, MakePolicy(config, engine_config.kv));
  HostileWorld hostile(options);
  WorkRecorder recorder;
  RecordingWorld world(hostile, std::array<RunObserver*, 1>{&recorder});
  Serve(engine, world);
  engine.CheckDrained();
  return recorder.steps();
}

// With a budget and a cache that never bind both take every request at once and run it whole:
// the unlimited iteration-level batch.
TEST(MetamorphicTest, UnlimitedVllmV1DecidesLikeUnlimitedOrca) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    HostileOptions options;
    options.seed = seed;
    options.blocks = 4000;
    options.oversized = false;
    options.context_tokens = 400;  // so that all requests fit at once
    VllmV1Config v1;
    v1.max_num_batched_tokens = v1.max_model_len = 1'000'000;
    v1.max_num_seqs = 1000;
    OrcaConfig orca;
    orca.max_bs = 1000;
    EXPECT_TRUE(WorkOf(v1, options) == WorkOf(orca, options)) << "seed " << seed;
  }
}

std::uint64_t Number(const char* text) { return std::strtoull(text, nullptr, 10); }

}  // namespace
}  // namespace twin::testing

int main(int argc, char** argv) {
  using namespace twin::testing;  // NOLINT(google-build-using-namespace)
  ::testing::InitGoogleTest(&argc, argv);
  if (const char* text = std::getenv("TWIN_HOSTILE_SEEDS")) seeds = Number(text);
  if (const char* text = std::getenv("TWIN_HOSTILE_FIRST_SEED")) first_seed = Number(text);
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--seeds=", 0) == 0) seeds = Number(argv[i] + 8);
    if (argument.rfind("--first_seed=", 0) == 0) first_seed = Number(argv[i] + 13);
  }
  std::signal(SIGABRT, SayCase);
  return RUN_ALL_TESTS();
}
