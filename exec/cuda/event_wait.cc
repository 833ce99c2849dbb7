#include "exec/cuda/event_wait.h"

#include <chrono>
#include <sstream>
#include <thread>

namespace twin::exec::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kSpin = std::chrono::microseconds(200);
constexpr auto kSleep = std::chrono::microseconds(20);
constexpr auto kHealthInterval = std::chrono::milliseconds(5);

std::string LimitText(Duration limit) {
  std::ostringstream text;
  text << "not done within " << std::chrono::duration<double>(limit).count() << " s";
  return text.str();
}

// Throws if the group was aborted: then every call to it throws.
void CheckGroup(Communicator& host) {
  if (host.size() > 1) static_cast<void>(host.HasMessage(host.rank() == 0 ? 1 : 0));
}

}  // namespace

void WaitBeside(Communicator& host, const std::string& operation, Patience patience, Duration limit,
                const std::function<bool()>& done, const std::function<void()>& check_health) {
  const Clock::time_point begin = Clock::now();
  Clock::time_point checked = begin;
  while (!done()) {
    const Clock::time_point now = Clock::now();
    if (now - checked >= kHealthInterval) {
      checked = now;
      CheckGroup(host);
      check_health();
    }
    if (patience == Patience::kBounded && now - begin > limit) {
      throw CommunicationError(host.rank(), operation, LimitText(limit));
    }
    if (now - begin > kSpin) std::this_thread::sleep_for(kSleep);
  }
}

}  // namespace twin::exec::cuda
