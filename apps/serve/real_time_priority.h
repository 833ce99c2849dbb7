// Real-time priority of threads that keep time.
#pragma once

#include <string>

#include "config/world_config.h"

namespace twin::apps {

// kAuto: on for an emulated world whose clock runs as fast as time, if the process may have it.
enum class RealTime { kAuto, kOn, kOff };

// Gives the calling thread, and each thread that it starts afterwards, precedence over all threads
// of ordinary priority on the machine (SCHED_RR of POSIX, priority 1). Linux leaves ordinary
// threads a share of time (sched(7), sched_rt_runtime_us: 5 % unless set), however busy these
// threads are.
//
// Returns "", or why this process may not have such a priority; then nothing has changed.
[[nodiscard]] std::string TakeRealTimePriority();

// Applies `serve --real-time` in a process that serves `world`. Returns a line for the user,
// "" if there is nothing to say. Throws InputError (usage) if kOn is not possible.
[[nodiscard]] std::string SetPriority(RealTime asked, const WorldConfig& world);

}  // namespace twin::apps
