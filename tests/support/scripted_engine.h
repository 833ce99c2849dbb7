// An engine with a policy whose decisions the test supplies.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sched/engine.h"
#include "sched/invariant.h"

namespace twin::testing {

using Rule = std::function<void(StepBuilder&)>;

inline constexpr RequestId kA{0};
inline constexpr RequestId kB{1};

inline PolicyTraits Traits() {
  PolicyTraits traits;
  traits.name = "scripted";
  return traits;
}

// Plans each step by calling `rule`, with which a test can violate one invariant at a time.
class ScriptedPolicy final : public Policy {
 public:
  explicit ScriptedPolicy(const PolicyTraits& traits) : traits_(traits) {}

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override { queued.push_back(sequence.id); }
  void Remove(const Sequence& sequence) override { removed.push_back(sequence.id); }
  void CollectReleases(std::vector<RequestId>& finished) override { finished.swap(releases); }
  void Plan(StepBuilder& step) override {
    if (rule) rule(step);
  }
  [[nodiscard]] TimePoint WakeAt() const override { return wake_at; }

  Rule rule;
  TimePoint wake_at = kTimeNever;
  std::vector<RequestId> queued;
  std::vector<RequestId> removed;
  std::vector<RequestId> releases;

 private:
  PolicyTraits traits_;
};

// An engine with 6 blocks of 4 tokens and 2 host blocks under a scripted policy.
class ScriptedEngineTest : public ::testing::Test {
 protected:
  ScriptedEngineTest() { Start(Traits()); }

  void Start(const PolicyTraits& traits, std::int32_t plans_per_instant_max = 0,
             bool checks_rejections = false) {
    auto policy = std::make_unique<ScriptedPolicy>(traits);
    policy_ = policy.get();
    EngineConfig config;
    config.kv = {.block_size = 4, .blocks = 6, .host_blocks = 2};
    config.plans_per_instant_max = plans_per_instant_max;
    config.checks_rejections = checks_rejections;
    engine_ = std::make_unique<Engine>(config, std::move(policy));
  }

  void Arrive(RequestId id, std::int32_t prompt = 6) {
    Request request;
    request.id = id;
    request.prompt_tokens = prompt;
    request.max_output_tokens = 9;
    engine_->Handle(RequestArrived{request});
  }

  const StepPlan* Plan(Rule rule) {
    policy_->rule = std::move(rule);
    return engine_->PlanStep(now_);
  }

  // Admits, takes blocks and computes the next tokens.
  static void Run(StepBuilder& step, RequestId id, std::int32_t tokens) {
    if (step.sequence(id).state == SequenceState::kWaiting) step.Admit(id);
    ASSERT_TRUE(step.Grow(id, step.sequence(id).computed + tokens));
    step.Schedule(id, tokens);
  }

  const StepPlan* PlanRun(RequestId id, std::int32_t tokens) {
    return Plan([=](StepBuilder& step) { Run(step, id, tokens); });
  }

  void Finish(std::uint64_t step, const std::vector<ItemOutcome>& outcomes = {}) {
    engine_->Handle(StepFinished{StepId{step}, now_, outcomes, {}});
  }

  const Sequence& Of(RequestId id) const { return engine_->sequences()[id]; }

  // Expects that planning by `rule` throws for this invariant and names the place.
  void ExpectBreach(int number, const std::string& place, Rule rule) {
    try {
      Plan(std::move(rule));
      ADD_FAILURE() << "I" << number << " was not detected";
    } catch (const InvariantViolation& violation) {
      EXPECT_EQ(violation.number(), number);
      const std::string start = "invariant I" + std::to_string(number) + " broken in " + place;
      EXPECT_EQ(std::string(violation.what()).substr(0, start.size()), start);
    }
  }

  ScriptedPolicy* policy_ = nullptr;
  std::unique_ptr<Engine> engine_;
  TimePoint now_ = kTimeZero;
};

}  // namespace twin::testing
