// Real-time priority of threads that keep time.
#pragma once

#include <string>

#include "config/world_config.h"

namespace twin::apps {

// kAuto: for an emulated world whose clock runs as fast as time, where the process may.
enum class RealTime { kAuto, kOn, kOff };

// The calling thread, and each thread that it starts afterwards, goes before all threads of
// ordinary priority on the machine (SCHED_RR of POSIX, priority 1). Linux leaves the others a share
// of time (sched(7), sched_rt_runtime_us: 5 % unless set), however busy these threads are.
//
// Returns "", or why this process may not have such a priority; then nothing has changed.
[[nodiscard]] std::string TakeRealTimePriority();

// What `serve --real-time` asks for, in a process that serves `world`. Returns a line for the user,
// "" if there is nothing to say. Throws InputError (usage) if kOn is not possible.
[[nodiscard]] std::string SetPriority(RealTime asked, const WorldConfig& world);

}  // namespace twin::apps
