#include "sim/world/wall_clock.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>

namespace twin::sim {

Duration SteadyWallClock::Elapsed() const {
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - start_);
}

void SteadyWallClock::WaitUntil(Duration deadline, std::unique_lock<std::mutex>& lock,
                                std::condition_variable& changed) {
  // Keeps the sum with the clock's start within its range.
  constexpr Duration kLongest = std::chrono::hours(1);
  const Duration latest = std::min(deadline, Elapsed() + kLongest);
  changed.wait_until(lock, start_ + latest);
}

void WakeThisThreadOnTime() { prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }

}  // namespace twin::sim
