// Bytes and calls from a policy's process may be any. Whatever they are, the judge's
// engine goes on, or the policy is refused; nothing aborts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "run/hostile/hostile_run.h"
#include "run/judge/host_messages.h"
#include "run/judge/judged_traits.h"
#include "run/judge/repeated_calls.h"
#include "sched/engine.h"
#include "sched/invariant.h"

namespace twin::run {
namespace {

using ::testing::HasSubstr;

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();

// Makes up calls in each step, of which some are possible by chance, and repeats them one by one.
// Then it serves who is still there, so that the world goes on.
class RandomCalls final : public Policy {
 public:
  struct Counts {
    int possible = 0;
    int impossible = 0;
    int broken = 0;  // refused by an invariant
    int drained = 0;
  };

  RandomCalls(std::uint64_t seed, const PolicyTraits& traits, Counts& counts)
      : random_(seed, "random calls"), traits_(traits), counts_(counts), repeated_(kShift) {}

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& s) override {
    ids_.push_back(s.id);
    live_.insert(s.id);
    repeated_.Enqueue(s.id);
  }
  void Remove(const Sequence& s) override {
    live_.erase(s.id);
    repeated_.Remove(s.id);
  }
  void Plan(StepBuilder& step) override {
    for (std::int64_t i = random_.UniformInt(0, 4); i > 0; --i) {
      try {
        repeated_.Repeat(Draw(), step);
        ++counts_.possible;
      } catch (const ImpossibleCall&) {
        ++counts_.impossible;
      }
    }
    for (const Rejection& rejection : step.plan().rejected) live_.erase(rejection.request);
    for (const RequestId id : live_) Serve(step.sequence(id), step);
    if (!step.plan().work.empty()) return;
    for (const RequestId id : live_) {
      const Sequence& s = step.sequence(id);
      if (s.state == SequenceState::kRunning && s.in_flight == 0) step.PreemptByRecompute(id);
    }
    for (const RequestId id : live_) Serve(step.sequence(id), step);
  }
  [[nodiscard]] TimePoint WakeAt() const override { return kTimeNever; }

 private:
  static constexpr std::uint32_t kShift = 1000;

  RequestId AnyId() {
    const auto id = ids_.empty() || random_.UnitReal() < 0.05
                        ? RequestId{static_cast<std::uint32_t>(random_.Next())}
                        : ids_[static_cast<std::size_t>(
                              random_.UniformInt(0, static_cast<std::int64_t>(ids_.size()) - 1))];
    return RequestId{Index(id) + kShift};
  }
  std::int32_t AnyNumber() {
    constexpr std::array<std::int32_t, 9> kNumbers = {kLeast, -1,   0,         1,    2,
                                                      16,     1000, kMost - 1, kMost};
    if (random_.UnitReal() < 0.7) return static_cast<std::int32_t>(random_.UniformInt(0, 40));
    return kNumbers[static_cast<std::size_t>(random_.UniformInt(0, 8))];
  }
  static void Serve(const Sequence& s, StepBuilder& step) {
    if (s.state == SequenceState::kSwapped && !step.SwapIn(s.id)) return;
    if (s.state == SequenceState::kWaiting && !step.plan().work.empty()) return;
    if (s.state == SequenceState::kWaiting) step.Admit(s.id);
    const std::int32_t left = s.known + s.pending - s.computed;
    if (s.in_flight > 0 || left < 1 || !step.Grow(s, s.computed + left)) return;
    step.Schedule(s, left);
  }
  StepCalls Draw() {
    StepCalls calls;
    StepCall call{.kind = static_cast<StepCall::Kind>(
                      random_.UniformInt(0, static_cast<int>(StepCall::Kind::kPublishPrefix))),
                  .request = AnyId(),
                  .a = AnyNumber(),
                  .b = random_.UnitReal() < 0.8 ? 0 : AnyNumber(),
                  .c = random_.UnitReal() < 0.8 ? 0 : AnyNumber()};
    if (call.kind == StepCall::Kind::kScheduleDecodes) {
      call.a = static_cast<std::int32_t>(random_.UniformInt(-1, 4));
      if (random_.UnitReal() < 0.8) call.b = kMost;
      for (int i = 0; i < 3; ++i) calls.decodes.push_back(AnyId());
    }
    calls.calls.push_back(call);
    return calls;
  }

  Random random_;
  PolicyTraits traits_;
  Counts& counts_;
  RepeatedCalls repeated_;
  std::vector<RequestId> ids_;  // of all that came
  std::set<RequestId> live_;
};

class NoObserver final : public RunObserver {
 public:
  void OnInstant(const Instant& /*instant*/) override {}
  void OnPlan(TimePoint /*now*/, const StepPlan& /*plan*/) override {}
};

TEST(RepeatedCallsTest, AnyCallsAreMadeOrRefused) {
  RandomCalls::Counts counts;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    PolicyTraits traits;
    traits.first_come_first_served = false;
    traits.caches_prefixes = seed % 2 == 0;
    traits.swaps_to_host = seed % 3 == 0;
    traits.publishes_returned_tokens = seed % 4 == 0;
    if (seed % 5 == 0) {
      traits.steps_in_flight_max = 2;
      traits.result_queue = ResultQueue::kBatchQueue;
      traits.overlaps_own_steps = true;
    }
    HostileOptions world{.seed = seed};
    world.block_size = world.key_tokens = 4;
    world.blocks = 24;
    world.host_blocks = traits.swaps_to_host ? 24 : 0;
    world.shares_prefixes = traits.caches_prefixes;
    world.context_tokens = 96;
    EngineConfig config;
    config.kv = {.block_size = 4, .blocks = 24, .host_blocks = world.host_blocks};
    config.checks_rejections = true;
    Engine engine(config, std::make_unique<RandomCalls>(seed, traits, counts));
    NoObserver observer;
    try {
      RunHostile(world, engine, observer);
      ++counts.drained;
    } catch (const InvariantViolation&) {
      ++counts.broken;
    } catch (const HostileBreach&) {
      ++counts.broken;
    }
  }
  // Enough of each that the fuzzing reaches behind the first check, and far into a run.
  EXPECT_GT(counts.possible, 3000);
  EXPECT_GT(counts.impossible, 3000);
  EXPECT_GT(counts.broken, 300);
  EXPECT_GT(counts.drained, 30);
}

// Repeats written calls, one list a step.
class WrittenCalls final : public Policy {
 public:
  explicit WrittenCalls(std::vector<StepCalls> steps) : steps_(std::move(steps)), repeated_(0) {
    traits_.caches_prefixes = true;
  }
  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& s) override { repeated_.Enqueue(s.id); }
  void Remove(const Sequence& s) override { repeated_.Remove(s.id); }
  void Plan(StepBuilder& step) override { repeated_.Repeat(steps_.at(next_++), step); }

 private:
  PolicyTraits traits_;
  std::vector<StepCalls> steps_;
  std::size_t next_ = 0;
  RepeatedCalls repeated_;
};

// Six blocks of four tokens. The first request leaves two cached blocks, which are free; the second
// one reserves all that is free; the third one attaches a cached block.
TEST(RepeatedCallsTest, CachedBlocksThatAnotherHasReservedAreNotAttached) {
  using Kind = StepCall::Kind;
  constexpr RequestId kFirst{0};
  constexpr RequestId kSecond{1};
  constexpr RequestId kThird{2};
  const StepCalls serve{.calls = {{.kind = Kind::kAdmit, .request = kFirst},
                                  {.kind = Kind::kGrow, .request = kFirst, .a = 9},
                                  {.kind = Kind::kSchedule, .request = kFirst, .a = 9},
                                  {.kind = Kind::kPublishPrefix, .request = kFirst, .a = 8}},
                        .decodes = {}};
  const StepCalls attach{.calls = {{.kind = Kind::kAdmit, .request = kSecond},
                                   {.kind = Kind::kReserve, .request = kSecond, .a = 6},
                                   {.kind = Kind::kAdmit, .request = kThird},
                                   {.kind = Kind::kAttachPrefix, .request = kThird, .a = 1}},
                         .decodes = {}};
  Engine engine({.kv = {.block_size = 4, .blocks = 6}},
                std::make_unique<WrittenCalls>(std::vector{serve, attach}));
  const std::array<BlockKey, 2> keys = {SharedKey(1), SharedKey(2)};
  const auto arrive = [&](RequestId id) {
    Request request;
    request.id = id;
    request.prompt_tokens = 9;
    request.max_output_tokens = 1;
    request.prefix_keys = keys;
    engine.Handle(RequestArrived{request});
  };
  arrive(kFirst);
  const StepPlan* const plan = engine.PlanStep(kTimeZero);
  ASSERT_NE(plan, nullptr);
  const std::array<ItemOutcome, 1> outcome = {ItemOutcome{kFirst, 1, FinishReason::kLength}};
  StepFinished finished;
  finished.step = plan->id;
  finished.outcomes = outcome;
  engine.Handle(finished);
  arrive(kSecond);
  arrive(kThird);
  EXPECT_THROW(engine.PlanStep(kTimeZero + Duration{1}), ImpossibleCall);
}

// `count` messages of random bytes, half of which begin as `start` does.
template <class Read>
void Fuzz(const MessageWriter& start, int count, Read read) {
  Random random(7, "message fuzz");
  for (int i = 0; i < count; ++i) {
    std::vector<std::byte> bytes(start.bytes().begin(), start.bytes().end());
    if (i % 2 == 0) {
      const int changes = static_cast<int>(random.UniformInt(1, 3));
      for (int change = 0; change < changes; ++change) {
        const auto at = random.UniformInt(0, static_cast<std::int64_t>(bytes.size()) - 1);
        bytes[static_cast<std::size_t>(at)] = static_cast<std::byte>(random.Next());
      }
      if (random.UnitReal() < 0.2) bytes.resize(static_cast<std::size_t>(random.UniformInt(0, 80)));
    } else {
      bytes.resize(static_cast<std::size_t>(random.UniformInt(0, 200)));
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Next());
    }
    MessageReader reader(bytes);
    try {
      read(reader);
    } catch (const BadMessage&) {
    }
  }
}

TEST(HostMessagesTest, AnyBytesGiveValuesOfTheirTypesOrAreRefused) {
  MessageWriter traits;
  PutTraits(traits, PolicyTraits{});
  Fuzz(traits, 20'000, [](MessageReader& reader) {
    std::deque<std::string> texts;
    const PolicyTraits read = GetTraits(reader, texts);
    EXPECT_TRUE(read.steps_in_flight_max >= 1 && read.steps_in_flight_max <= 64);
    EXPECT_TRUE(read.tokens_per_step_max >= 0 && read.context_tokens_max >= 0);
    EXPECT_LE(read.result_queue, ResultQueue::kOverlap);
    EXPECT_LE(read.release_order, ReleaseOrder::kKeylessFront);
    for (const std::string_view text : {read.name, read.memory_rule, read.step_engine}) {
      EXPECT_TRUE(std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; })) << text;
    }
  });
  MessageWriter plan;
  PutAnswer(plan, {.has_plan = true, .wake_at = 5, .free_blocks = 3});
  StepCalls calls;
  calls.calls.push_back({.kind = StepCall::Kind::kAdmit, .request = RequestId{1}});
  calls.decodes.push_back(RequestId{2});
  PutCalls(plan, calls);
  Fuzz(plan, 20'000, [](MessageReader& reader) {
    (void)GetAnswer(reader);
    StepCalls read;
    GetCalls(reader, read);
    for (const StepCall& call : read.calls) EXPECT_LE(call.kind, StepCall::Kind::kPublishPrefix);
  });
}

TEST(HostMessagesTest, TraitsCrossAsTheyAre) {
  PolicyTraits traits;
  traits.name = "mine";
  traits.tokens_per_step_max = 512;
  traits.sequences_per_step_max = 7;
  traits.steps_in_flight_max = 2;
  traits.result_queue = ResultQueue::kBatchQueue;
  traits.overlaps_own_steps = true;
  traits.first_come_first_served = false;
  traits.caches_prefixes = true;
  traits.release_order = ReleaseOrder::kKeylessFront;
  traits.context_tokens_max = 4096;
  traits.step_engine = "v0";
  MessageWriter writer;
  PutTraits(writer, traits);
  MessageReader reader(writer.bytes());
  std::deque<std::string> texts;
  EXPECT_EQ(GetTraits(reader, texts), traits);
}

TEST(JudgedTraitsTest, PoliciesThatTheJudgeCannotFollowAreNamed) {
  PolicyTraits traits;
  traits.drafts_max = 3;
  traits.defers_release = true;
  MessageWriter writer;
  try {
    PutTraits(writer, traits);
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("policies that set defers_release, drafts_max"));
  }
}

// The system of vLLM V1 with 2048 tokens and 256 sequences a step, of 8192 tokens a request.
PolicyTraits System() {
  PolicyTraits system;
  system.tokens_per_step_max = 2048;
  system.sequences_per_step_max = 256;
  system.context_tokens_max = 8192;
  system.sized_for_tokens = 2048;
  system.outputs_end_at_context = true;
  system.frees_in_flight = true;
  return system;
}

TEST(JudgedTraitsTest, APolicyMaySayWhatIsItsOwnAndWhatTheSystemSays) {
  const PolicyTraits system = System();
  EXPECT_EQ(RefuseTraits(system, system), "");
  PolicyTraits traits;  // unset: as the system has it
  traits.tokens_per_step_max = 1;
  EXPECT_EQ(RefuseTraits(traits, system), "");
  traits.preempts = false;
  traits.first_come_first_served = false;
  traits.caches_prefixes = true;
  traits.publishes_at_end = true;
  traits.reads_predictions = true;
  traits.release_order = ReleaseOrder::kKeylessFront;
  EXPECT_EQ(RefuseTraits(traits, system), "");
}

TEST(JudgedTraitsTest, WhatChangesTheSystemIsRefusedByName) {
  struct Case {
    const char* refusal;
    void (*set)(PolicyTraits&);
  };
  const PolicyTraits system = System();
  for (const auto& [refusal, set] : {
           Case{"tokens_per_step_max is 2049; allowed in this system: 1 to 2048",
                [](PolicyTraits& t) { t.tokens_per_step_max = 2049; }},
           Case{"tokens_per_step_max is 0; allowed in this system: 1 to 2048",
                [](PolicyTraits& t) { t.tokens_per_step_max = 0; }},
           Case{"sequences_per_step_max is 1000000; allowed in this system: 0 to 256",
                [](PolicyTraits& t) { t.sequences_per_step_max = 1'000'000; }},
           Case{"steps_in_flight_max is 2; allowed in this system: 1 to 1",
                [](PolicyTraits& t) { t.steps_in_flight_max = 2; }},
           Case{"overlaps_own_steps is true; allowed in this system: false",
                [](PolicyTraits& t) { t.overlaps_own_steps = true; }},
           Case{"forgets_stale_tokens is true; allowed in this system: false",
                [](PolicyTraits& t) { t.forgets_stale_tokens = true; }},
           Case{"memory_rule is sarathi; allowed in this system: vllm_v1",
                [](PolicyTraits& t) { t.memory_rule = "sarathi"; }},
           Case{"sized_for_tokens is 1; allowed in this system: 0 or 2048",
                [](PolicyTraits& t) { t.sized_for_tokens = 1; }},
           Case{"context_tokens_max is 501; allowed in this system: 0 or 8192",
                [](PolicyTraits& t) { t.context_tokens_max = 501; }},
           Case{"step_engine is \\xff\\xfe; allowed in this system: v1",
                [](PolicyTraits& t) { t.step_engine = "\xff\xfe"; }},
       }) {
    PolicyTraits traits = system;
    set(traits);
    EXPECT_EQ(RefuseTraits(traits, system), std::string("its trait ") + refusal);
  }
}

}  // namespace
}  // namespace twin::run
