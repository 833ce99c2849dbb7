// Ctrl-C asks the work in progress to stop.
#pragma once

namespace twin::apps {

// During its lifetime, the first SIGINT or SIGTERM only sets a flag; a second one ends the process.
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
