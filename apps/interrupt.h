// Ctrl-C asks the work in progress to stop.
#pragma once

namespace twin::apps {

// During its lifetime, the first SIGINT or SIGTERM only sets a flag; a second one ends the process.
// At most one exists at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  [[nodiscard]] static bool interrupted();
};

// During its lifetime, SIGINT and SIGTERM are counted; the third one ends the process. For work
// that can end in two ways: patiently and at once. At most one exists at a time, and no
// InterruptGuard at the same time.
class SignalCount {
 public:
  SignalCount();
  ~SignalCount();
  SignalCount(const SignalCount&) = delete;
  SignalCount& operator=(const SignalCount&) = delete;

  [[nodiscard]] static int given();
};

}  // namespace twin::apps
