// A run kept whole in memory: for tests, and for replaying a run that has just ended.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "run/record/record_source.h"
#include "run/record/run_observer.h"

namespace twin {

// Keeps copies of all instants and plans. Memory grows with the run.
class RecordedRun : public RunObserver {
 public:
  struct Moment {
    TimePoint now;
    std::vector<Event> events;  // their spans refer to the lists below
    std::vector<std::vector<ItemOutcome>> outcomes;
    std::vector<std::vector<BlockFilled>> filled;
    std::vector<std::vector<BlockKey>> prefix_keys;
    std::vector<StepPlan> plans;               // launched at this instant
    std::vector<KvTransfer> transfers;         // begun at this instant
    std::vector<std::vector<BlockId>> blocks;  // memory of the transfers' spans
  };

  RecordedRun() = default;
  RecordedRun(const RecordedRun&) = delete;
  RecordedRun& operator=(const RecordedRun&) = delete;

  void OnInstant(const Instant& instant) override;
  // Adds a plan to the latest instant. REQUIRES: there is an instant.
  void OnPlan(TimePoint now, const StepPlan& plan) override;
  // Adds a transfer to the latest instant. REQUIRES: there is an instant.
  void OnTransfer(TimePoint now, const KvTransfer& transfer) override;

  [[nodiscard]] const std::deque<Moment>& moments() const { return moments_; }
  // For tests that damage a record.
  [[nodiscard]] std::deque<Moment>& moments() { return moments_; }

 private:
  std::deque<Moment> moments_;
};

// Calls the observers with all instants and plans of the run, in order.
void NotifyObservers(const RecordedRun& run, std::span<RunObserver* const> observers);

// Borrows the run, which must not grow meanwhile.
class RecordedRunSource : public RecordSource {
 public:
  explicit RecordedRunSource(const RecordedRun& run) : run_(run) {}

  bool NextInstant(Instant& instant) override;
  const StepPlan* NextPlan() override;
  const KvTransfer* NextTransfer() override;

 private:
  const RecordedRun& run_;
  std::size_t next_moment_ = 0;
  std::size_t next_plan_ = 0;
  std::size_t next_transfer_ = 0;
};

}  // namespace twin
