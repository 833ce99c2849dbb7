#include "apps/interrupt.h"

#include <atomic>
#include <csignal>

namespace twin::apps {
namespace {

// Written by a handler, read by any thread.
std::atomic<bool> signalled = false;
static_assert(std::atomic<bool>::is_always_lock_free);

std::atomic<int> signal_count = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void CountSignal(int number) {
  if (++signal_count >= 2) std::signal(number, SIG_DFL);
}

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

SignalCount::SignalCount() {
  signal_count = 0;
  std::signal(SIGINT, CountSignal);
  std::signal(SIGTERM, CountSignal);
}

SignalCount::~SignalCount() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

int SignalCount::given() { return signal_count; }

}  // namespace twin::apps
