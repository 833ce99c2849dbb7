// A world on the wall clock, in which a thread runs the steps and takes an unpredictable time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/traced_request.h"
#include "sched/world.h"

namespace twin::testing {

// Steps run one after the other on a backend thread, which sleeps or spins for unpredictable times;
// arrivals come by the clock. The order of events differs from run to run.
class ThreadedWorld final : public World {
 public:
  // REQUIRES: requests in order of arrival.
  explicit ThreadedWorld(std::vector<TracedRequest> requests);
  ~ThreadedWorld() override;

  Instant Advance(TimePoint wake_at) override;
  void Launch(const StepPlan& plan) override;

 private:
  struct Ended {
    const StepPlan* plan = nullptr;
    TimePoint started;
  };

  void RunBackend();
  [[nodiscard]] TimePoint Now() const;
  void Deliver(const Ended& ended);
  void Announce(RequestId id);

  const std::vector<TracedRequest> requests_;
  std::vector<std::int32_t> emitted_;
  std::size_t next_arrival_ = 0;
  std::int64_t in_flight_ = 0;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<const StepPlan*> launched_;
  std::deque<Ended> ended_;
  bool closing_ = false;

  // Of the present instant.
  std::vector<Event> events_;
  std::deque<std::vector<ItemOutcome>> outcomes_;
  std::thread backend_;  // the last member: it uses all others
};

}  // namespace twin::testing
