// A world whose batches take a given time, for cases that decide when a batch is sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/schedule/schedule_case.h"
#include "sched/policy/policy.h"
#include "sched/world.h"

namespace twin::run {

// Requests have one token to compute and one to emit, so a batch is one step. It takes
// BatchTime::base plus BatchTime::per_request times its size, beside all other batches.
class BatchTimeWorld final : public World {
 public:
  // Borrows the case. REQUIRES: the case has a batch time.
  explicit BatchTimeWorld(const ScheduleCase& schedule_case) : case_(schedule_case) {}

  Instant Advance(TimePoint wake_at) override;
  void Launch(const StepPlan& plan) override;
  // Notes why the latest batch was sent.
  void OnPlanned(const Policy& policy);

  // {"t_us", "ids", "end_us", "reason"} of each batch.
  [[nodiscard]] const std::vector<nlohmann::ordered_json>& batches() const { return batches_; }

 private:
  struct RunningBatch {
    const StepPlan* plan = nullptr;
    TimePoint started;
    TimePoint ends;
    std::vector<ItemOutcome> outcomes;
  };

  void ReturnBatches();
  void Announce(std::size_t index);

  const ScheduleCase& case_;
  TimePoint now_ = kTimeZero;
  std::size_t next_arrival_ = 0;
  std::vector<RunningBatch> running_;   // in the order of launch
  std::vector<RunningBatch> returned_;  // in this instant
  std::vector<Event> events_;
  std::vector<nlohmann::ordered_json> batches_;
};

}  // namespace twin::run
