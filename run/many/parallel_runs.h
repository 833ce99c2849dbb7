// Independent pieces of work on several threads, for a caller that collects them.
#pragma once

#include <cstddef>
#include <functional>

#include "run/run_control.h"

namespace twin::run {

// The threads that `jobs` 0 stands for: one per core that this process may use.
int DefaultJobs();

// Calls run(i, inner) for i = 0, 1, ..., count - 1 on up to `jobs` threads (0: DefaultJobs()) in
// rising order of their begin, and done(i) on the calling thread once run(i) has returned, in any
// order. The calling thread runs nothing else. What run(i) wrote is visible to done(i).
//
// Warnings and notes that a piece reports to `inner` reach `control` on the calling thread, before
// done() hears of the piece; its progress is not passed on.
//
// Once `control`, which is asked on the calling thread ten times a second, wants to stop, nothing
// new begins and `inner` asks the running pieces to end; done() is called for these pieces too. An
// exception of run() or done() has the same effect and is thrown again after the running pieces
// have ended.
//
// Where the system refuses some of the threads, the remaining ones do the work, and a warning says
// so. If it refuses all, throws std::system_error.
void RunInParallel(std::size_t count, int jobs, RunControl& control,
                   const std::function<void(std::size_t, RunControl& inner)>& run,
                   const std::function<void(std::size_t)>& done);

}  // namespace twin::run
