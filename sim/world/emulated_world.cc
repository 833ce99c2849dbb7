#include "sim/world/emulated_world.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/check.h"

namespace twin::sim {
namespace {

SimWorldOptions Paced(SimWorldOptions options, Pace& pace) {
  options.pace = &pace;
  return options;
}

}  // namespace

EmulatedWorld::EmulatedWorld(ArrivalSource& source, const StepCost& cost, SimWorldOptions options,
                             WallClock& clock, double speed)
    : source_(source),
      clock_(clock),
      speed_(speed),
      simulated_(source, cost, Paced(std::move(options), *this)) {
  CHECK(speed > 0);
}

TimePoint EmulatedWorld::now() const {
  const Duration elapsed = clock_.Elapsed();
  if (speed_ == 1) return kTimeZero + elapsed;  // exact, however long it runs
  return kTimeZero + DurationFromNanoseconds(static_cast<double>(elapsed.count()) * speed_);
}

Duration EmulatedWorld::ClockAt(TimePoint time) const {
  if (time == kTimeNever) return Duration::max();
  if (speed_ == 1) return time.time_since_epoch();
  const auto ns = static_cast<double>(Nanoseconds(time));
  return DurationFromNanoseconds(std::ceil(ns / speed_));
}

void EmulatedWorld::Cancel(RequestId id, bool answered) {
  {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back({id, answered});
    news_ = true;
  }
  changed_.notify_one();
}

void EmulatedWorld::Wake() {
  {
    const std::lock_guard lock(mutex_);
    news_ = true;
  }
  changed_.notify_one();
}

void EmulatedWorld::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
}

bool EmulatedWorld::PassCancellations() {
  const auto arrived = [this](const RequestCancelled& cancelled) {
    return Index(cancelled.request) < simulated_.arrived();
  };
  const auto waiting = std::stable_partition(pending_.begin(), pending_.end(), arrived);
  if (waiting == pending_.begin()) return false;
  // An instant of its own: the engine has planned for the latest one.
  const TimePoint time = std::max(now(), simulated_.now() + Duration{1});
  for (auto i = pending_.begin(); i != waiting; ++i) simulated_.Cancel(*i, time);
  pending_.erase(pending_.begin(), waiting);
  return true;
}

Pace::Turn EmulatedWorld::Await(TimePoint next) {
  if (PassCancellations()) return Turn::kLookAgain;
  const Duration deadline = ClockAt(next);
  std::unique_lock lock(mutex_);
  while (!news_ && !stop_ && clock_.Elapsed() < deadline) {
    if (next == kTimeNever && !source_.open()) return Turn::kGo;
    clock_.WaitUntil(deadline, lock, changed_);
  }
  stopped_early_ = stop_;
  if (stop_) return Turn::kEnd;
  if (news_) {
    news_ = false;
    pending_.insert(pending_.end(), cancelled_.begin(), cancelled_.end());
    cancelled_.clear();
    return Turn::kLookAgain;
  }
  lateness_ = clock_.Elapsed() - deadline;
  return Turn::kGo;
}

}  // namespace twin::sim
