// Warns when a simulation leaves the range that its cost model was measured in, or makes steps that
// its memory was not planned for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "run/deployment.h"
#include "run/record/run_observer.h"
#include "run/run_control.h"
#include "sim/cost/step_cost.h"

namespace twin::run {

// Counts the steps of a run outside of that range. Borrows the deployment's cost models. Plans of
// different replicas may come on several threads at once.
class CostRangeWatch final : public RunObserver {
 public:
  explicit CostRangeWatch(const Deployment& deployment);

  // False if every step that the policy may plan lies inside: the run then needs no observer.
  [[nodiscard]] bool needed() const { return needed_; }

  void OnInstant(const Instant& /*instant*/) override {}
  void OnPlan(TimePoint /*now*/, const StepPlan& plan) override {
    Count(plan.totals, replicas_.at(static_cast<std::size_t>(plan.replica)));
  }
  [[nodiscard]] bool takes_streaks() const override { return true; }
  void OnStreak(const StreakPart& part) override {
    Replica& replica = replicas_.at(static_cast<std::size_t>(part.replica));
    for (std::size_t i = 0; i < part.moments.size(); ++i) Count(part.TotalsAt(i), replica);
  }

  // Warns in one line of steps outside of the range, and in one of steps without planned memory.
  void Report(RunControl& control) const;

 private:
  struct alignas(64) Replica {
    const sim::StepCost* cost = nullptr;
    std::int64_t planned_tokens = 0;  // in the largest step whose activations have memory
    std::int64_t steps = 0;
    std::int64_t outside = 0;
    std::int64_t unplanned = 0;  // steps with more tokens than planned
    std::int64_t largest = 0;    // tokens in the largest of them
  };

  static void Count(const StepTotals& totals, Replica& replica) {
    ++replica.steps;
    if (!replica.cost->Covers(totals)) ++replica.outside;
    const std::int64_t tokens = totals.tokens();
    if (tokens <= replica.planned_tokens) return;
    ++replica.unplanned;
    if (tokens > replica.largest) replica.largest = tokens;
  }
  void Add(const Deployment& alike);

  std::string_view model_;
  std::vector<Replica> replicas_;
  bool needed_ = false;
};

}  // namespace twin::run
