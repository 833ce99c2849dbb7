// Ctrl-C ends a run early, with what it has.
#pragma once

namespace twin::apps {

// While one lives, the first SIGINT or SIGTERM only sets a flag; a second one ends the process.
// At most one at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  [[nodiscard]] static bool interrupted();
};

}  // namespace twin::apps
