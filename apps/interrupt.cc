#include "apps/interrupt.h"

#include <csignal>

namespace twin::apps {
namespace {

volatile std::sig_atomic_t signalled = 0;

void OnSignal(int number) {
  signalled = 1;
  std::signal(number, SIG_DFL);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  signalled = 0;
  std::signal(SIGINT, OnSignal);
  std::signal(SIGTERM, OnSignal);
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

bool InterruptGuard::interrupted() { return signalled != 0; }

}  // namespace twin::apps
