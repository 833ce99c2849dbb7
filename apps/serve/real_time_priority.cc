#include "apps/serve/real_time_priority.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <cstring>
#include <variant>

#include "core/input_error.h"

namespace twin::apps {
namespace {

constexpr const char* kOption = "--real-time";

[[noreturn]] void Refuse(const std::string& what) {
  throw InputError(InputError::Kind::kUsage, kOption, what);
}

}  // namespace

std::string TakeRealTimePriority() {
  // The lowest priority of SCHED_RR is above all ordinary threads. Equal priorities take turns.
  const sched_param priority{.sched_priority = sched_get_priority_min(SCHED_RR)};
  const int error = pthread_setschedparam(pthread_self(), SCHED_RR, &priority);
  if (error == 0) return "";
  return fmt::format(
      "this process may not have real-time priority ({}), which needs the capability "
      "CAP_SYS_NICE or a limit of at least {} (ulimit -r)",
      std::strerror(error), priority.sched_priority);
}

std::string SetPriority(RealTime asked, const WorldConfig& world) {
  const auto* emulated = std::get_if<EmulatedWorldConfig>(&world);
  if (asked == RealTime::kOff) return "";
  if (asked == RealTime::kAuto) {
    // A faster clock may take all cores from the clients on this machine.
    if (emulated == nullptr || emulated->speed > 1) return "";
    const std::string reason = TakeRealTimePriority();
    if (reason.empty()) return "note: real-time priority, before ordinary programs (--real-time)";
    return "note: tokens may leave late beside other programs: " + reason;
  }
  if (emulated == nullptr) {
    Refuse(
        "the threads of a real model would take all cores from the machine; allowed: with world "
        "{ emulated {} }");
  }
  const std::string reason = TakeRealTimePriority();
  if (!reason.empty()) Refuse(reason + "; allowed: auto, off");
  return "";
}

}  // namespace twin::apps
