#include "tests/support/threaded_world.h"

#include <algorithm>
#include <utility>

namespace twin::testing {

ThreadedWorld::ThreadedWorld(std::vector<TracedRequest> requests)
    : requests_(std::move(requests)),
      emitted_(requests_.size()),
      backend_([this] { RunBackend(); }) {}

ThreadedWorld::~ThreadedWorld() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  backend_.join();
}

Instant ThreadedWorld::Advance(TimePoint wake_at) {
  events_.clear();
  outcomes_.clear();
  TimePoint look = wake_at;
  if (next_arrival_ < requests_.size()) look = std::min(look, requests_[next_arrival_].arrival);
  if (in_flight_ == 0 && look == kTimeNever) return {Now(), {}};
  std::deque<Ended> ended;
  {
    std::unique_lock lock(mutex_);
    const auto has_ended = [this] { return !ended_.empty(); };
    if (look < kTimeNever) {
      changed_.wait_until(lock, start_ + look.time_since_epoch(), has_ended);
    } else {
      changed_.wait(lock, has_ended);
    }
    ended.swap(ended_);
  }
  const TimePoint now = Now();
  for (const Ended& step : ended) Deliver(step);
  while (next_arrival_ < requests_.size() && requests_[next_arrival_].arrival <= now) {
    Announce(RequestId{static_cast<std::uint32_t>(next_arrival_++)});
  }
  if (events_.empty()) events_.push_back(WakeUp{});
  return {now, events_};
}

void ThreadedWorld::Launch(const StepPlan& plan) {
  ++in_flight_;
  {
    const std::lock_guard lock(mutex_);
    launched_.push_back(&plan);
  }
  changed_.notify_all();
}

void ThreadedWorld::RunBackend() {
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closing_ || !launched_.empty(); });
    if (launched_.empty()) return;
    const StepPlan* plan = launched_.front();
    launched_.pop_front();
    lock.unlock();
    const TimePoint started = Now();
    // What the clock and the operating system make of it is as unpredictable as a device.
    const std::int64_t noise = started.time_since_epoch().count() % 7;
    if (noise < 3) std::this_thread::yield();
    if (noise >= 5) std::this_thread::sleep_for(std::chrono::microseconds(20 * noise));
    lock.lock();
    ended_.push_back({plan, started});
    lock.unlock();
    changed_.notify_all();
  }
}

TimePoint ThreadedWorld::Now() const {
  return kTimeZero +
         std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - start_);
}

void ThreadedWorld::Deliver(const Ended& ended) {
  --in_flight_;
  std::vector<ItemOutcome>& outcomes = outcomes_.emplace_back();
  for (const WorkItem& item : ended.plan->work) {
    const TracedRequest& request = requests_[Index(item.request)];
    std::int32_t& emitted = emitted_[Index(item.request)];
    if (!item.emits || emitted == request.output_tokens) continue;
    if (++emitted < request.output_tokens) continue;
    const bool limit = emitted == request.max_output_tokens;
    outcomes.push_back({item.request, 1, limit ? FinishReason::kLength : FinishReason::kStop});
  }
  events_.push_back(StepFinished{ended.plan->id, ended.started, outcomes, {}});
}

void ThreadedWorld::Announce(RequestId id) {
  const TracedRequest& traced = requests_[Index(id)];
  Request request;
  request.id = id;
  request.arrival = traced.arrival;
  request.prompt_tokens = traced.prompt_tokens;
  request.max_output_tokens = traced.max_output_tokens;
  request.priority = traced.priority;
  events_.push_back(RequestArrived{request});
}

}  // namespace twin::testing
