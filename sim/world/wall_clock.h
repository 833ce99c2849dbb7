// The clock by which emulated worlds wait.
#pragma once

#include <condition_variable>
#include <mutex>

#include "core/time.h"

namespace twin::sim {

// Time since the clock was made. Tests replace it.
class WallClock {
 public:
  virtual ~WallClock() = default;

  // From any thread.
  [[nodiscard]] virtual Duration Elapsed() const = 0;

  // Waits until Elapsed() reaches `deadline` (Duration::max(): without a deadline) or `changed` is
  // notified, or less. Returns with `lock` held, which is given up meanwhile.
  virtual void WaitUntil(Duration deadline, std::unique_lock<std::mutex>& lock,
                         std::condition_variable& changed) = 0;
};

// The machine's steady clock.
class SteadyWallClock final : public WallClock {
 public:
  [[nodiscard]] Duration Elapsed() const override;
  void WaitUntil(Duration deadline, std::unique_lock<std::mutex>& lock,
                 std::condition_variable& changed) override;

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Asks the kernel to wake the calling thread on time: by default it may sleep 50 us longer.
void WakeThisThreadOnTime();

}  // namespace twin::sim
