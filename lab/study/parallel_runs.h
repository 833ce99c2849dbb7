// Independent pieces of work on several threads, for a caller that collects them.
#pragma once

#include <cstddef>
#include <functional>

#include "lab/run_control.h"

namespace twin::lab {

// The threads that `jobs` 0 stands for: one per core that this process may use.
int DefaultJobs();

// Calls run(i, stop) for i = 0, 1, ..., count - 1 on up to `jobs` threads of oneTBB (0:
// DefaultJobs()) in rising order of their begin, and done(i) on the calling thread once run(i) has
// returned, in any order. The calling thread runs nothing else. What run(i) wrote is visible to
// done(i).
//
// Once `control`, which is asked on the calling thread ten times a second, wants to stop, nothing
// new begins and `stop` asks the running pieces to end; done() hears of those too. An exception of
// run() or done() has the same effect and is thrown again after the running pieces have ended.
void RunInParallel(std::size_t count, int jobs, const RunControl& control,
                   const std::function<void(std::size_t, RunControl& stop)>& run,
                   const std::function<void(std::size_t)>& done);

}  // namespace twin::lab
