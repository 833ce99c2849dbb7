#include "apps/interrupt.h"

#include <atomic>
#include <csignal>

namespace twin::apps {
namespace {

// Written by a handler, read by any thread.
std::atomic<bool> signalled = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void OnSignal(int number) {
  signalled = true;
  std::signal(number, SIG_DFL);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  signalled = false;
  std::signal(SIGINT, OnSignal);
  std::signal(SIGTERM, OnSignal);
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

bool InterruptGuard::interrupted() { return signalled; }

}  // namespace twin::apps
