// A world that replays a record: a fresh engine must make the recorded plans again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "run/record/plan_text.h"
#include "run/record/record_source.h"
#include "sched/world.h"

namespace twin {

// The first plan, or transfer, of a replay that differs from the record.
struct ReplayDifference {
  TimePoint now;
  PlanDifference where;  // left: recorded, right: decided by the replay
  std::string recorded;  // PlanText, or "no plan"
  std::string decided;

  // Several lines, for people.
  [[nodiscard]] std::string text() const;
};

// Delivers the recorded instants and compares every launched plan and begun transfer with the
// recorded one. The replay ends after the first difference: the rest of the record is about steps
// that this engine never planned. Borrows the source.
class ReplayWorld : public World {
 public:
  explicit ReplayWorld(RecordSource& source) : source_(source) {}

  Instant Advance(TimePoint wake_at) override;
  void Launch(const StepPlan& plan) override;
  void Transfer(const KvTransfer& transfer) override;

  [[nodiscard]] const std::optional<ReplayDifference>& difference() const { return difference_; }
  // Number of plans found equal.
  [[nodiscard]] std::uint64_t equal_plans() const { return equal_plans_; }

 private:
  void MissTransfer(const KvTransfer* recorded, const KvTransfer* decided);
  void Differ(PlanDifference where, const StepPlan* recorded, const StepPlan* decided);

  RecordSource& source_;
  TimePoint now_ = kTimeZero;
  std::uint64_t equal_plans_ = 0;
  std::optional<ReplayDifference> difference_;
};

}  // namespace twin
