// Decodes first, then the shortest prompt, in chunks, within a budget of tokens. A request that has
// waited for longer than `patience` comes before all shorter ones, so that none starves.
#pragma once

#include <algorithm>
#include <iterator>
#include <tuple>
#include <vector>

#include "sched/policy/policy.h"
#include "sched/policy/policy_parameters.h"
#include "sched/step_builder.h"

struct ShortestPromptFirstConfig {
  std::int32_t tokens_per_step = 512, sequences = 256;
  twin::Duration patience = std::chrono::seconds(20);

  // With the values that an experiment gives: policy.own.parameters.
  static ShortestPromptFirstConfig From(const twin::PolicyParameters& given) {
    ShortestPromptFirstConfig config;
    config.tokens_per_step = given.Integer("tokens_per_step", config.tokens_per_step);
    config.sequences = given.Integer("sequences", config.sequences);
    config.patience = given.Seconds("patience_s", config.patience);
    return config;
  }
};

class ShortestPromptFirst final : public twin::Policy {
 public:
  explicit ShortestPromptFirst(const ShortestPromptFirstConfig& config) : config_(config) {
    traits_.name = "shortest_prompt_first";
    traits_.tokens_per_step_max = config.tokens_per_step;
    traits_.first_come_first_served = false;
  }
  explicit ShortestPromptFirst(const twin::PolicyParameters& given)
      : ShortestPromptFirst(ShortestPromptFirstConfig::From(given)) {}

  const twin::PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const twin::Sequence& sequence) override { waiting_.push_back(sequence.id); }
  void Remove(const twin::Sequence& sequence) override {
    if (std::erase(running_, sequence.id) == 0) std::erase(waiting_, sequence.id);
  }

  void Plan(twin::StepBuilder& step) override {
    budget_ = config_.tokens_per_step;
    bool admits = ScheduleDecodes(step);
    const auto is_prompt = [&](auto id) { return !step.sequence(id).decodes; };
    prompts_ = waiting_;
    std::ranges::copy_if(running_, std::back_inserter(prompts_), is_prompt);
    std::ranges::sort(prompts_, {}, [&](auto id) { return Rank(step, id); });
    for (const twin::RequestId id : prompts_) {
      const twin::Sequence& s = step.sequence(id);
      const bool waits = s.state == twin::SequenceState::kWaiting;
      if (waits && RejectIfTooLarge(step, s)) continue;
      // Who does not fit holds up those behind it, so that it is served some day.
      if (waits && budget_ > 0) admits = admits && Admit(step, s);
      if (budget_ > 0 && (!waits || admits)) Schedule(step, s, s.known - s.computed);
    }
  }

 private:
  // False if somebody was preempted; then nobody is admitted in this step.
  bool ScheduleDecodes(twin::StepBuilder& step) {
    bool all_fit = true;
    for (std::size_t i = 0; i < running_.size() && budget_ > 0; ++i) {
      const twin::Sequence& s = step.sequence(running_[i]);
      if (!s.decodes) continue;
      while (i < running_.size() && !step.Grow(s, s.known)) {
        all_fit = false;
        step.PreemptByRecompute(running_.back());
        waiting_.push_back(running_.back());
        running_.pop_back();
      }
      if (i < running_.size()) Schedule(step, s, 1);
    }
    return all_fit;
  }

  using RankType = std::tuple<bool, std::int32_t, twin::RequestId>;  // smaller goes first
  RankType Rank(const twin::StepBuilder& step, twin::RequestId id) const {
    const twin::Sequence& s = step.sequence(id);
    const bool is_late = step.now() - s.arrival > config_.patience;
    return {!is_late, is_late ? 0 : s.known - s.computed, id};
  }

  bool RejectIfTooLarge(twin::StepBuilder& step, const twin::Sequence& s) {
    const std::int32_t tokens = s.prompt_tokens + s.max_output_tokens;
    if (step.pool().BlocksFor(tokens) <= step.pool().usable()) return false;
    std::erase(waiting_, s.id);
    step.Reject(s.id, twin::RejectReason::kTooLargeForCache);  // `s` ends here
    return true;
  }

  bool Admit(twin::StepBuilder& step, const twin::Sequence& s) {
    if (std::ssize(running_) == config_.sequences) return false;
    if (step.pool().BlocksFor(s.known) > step.pool().free()) return false;
    std::erase(waiting_, s.id);
    running_.push_back(s.id);
    step.Admit(s.id);
    return step.Grow(s, s.known);
  }

  void Schedule(twin::StepBuilder& step, const twin::Sequence& s, std::int32_t tokens) {
    step.Schedule(s, std::min(tokens, budget_));
    budget_ -= std::min(tokens, budget_);
  }

  ShortestPromptFirstConfig config_;
  twin::PolicyTraits traits_;
  std::vector<twin::RequestId> waiting_, running_, prompts_;  // running_: in order of admission
  std::int32_t budget_ = 0;                                   // tokens left in the step
};
