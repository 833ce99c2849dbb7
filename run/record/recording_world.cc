#include "run/record/recording_world.h"

namespace twin {

Instant RecordingWorld::Advance(TimePoint wake_at) {
  const Instant instant = inner_.Advance(wake_at);
  now_ = instant.now;
  if (!instant.events.empty()) {
    for (RunObserver* observer : observers_) observer->OnInstant(instant);
  }
  return instant;
}

void RecordingWorld::Continue(const StepPlan& latest, std::int64_t steps_max, StreakPart& part) {
  if (takes_streaks_) inner_.Continue(latest, steps_max, part);
}

void RecordingWorld::Continued(const StreakPart& part) {
  now_ = part.moments.back().now;
  for (RunObserver* observer : observers_) observer->OnStreak(part);
  inner_.Continued(part);
}

void RecordingWorld::Launch(const StepPlan& plan) {
  for (RunObserver* observer : observers_) observer->OnPlan(now_, plan);
  inner_.Launch(plan);
}

void RecordingWorld::Transfer(const KvTransfer& transfer) {
  for (RunObserver* observer : observers_) observer->OnTransfer(now_, transfer);
  inner_.Transfer(transfer);
}

}  // namespace twin
