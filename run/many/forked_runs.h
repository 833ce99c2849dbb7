// Independent pieces of work, each in a process of its own, for a caller that collects them: for
// policies whose runs cannot share a process (OwnPolicy::fork).
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "config/experiment_config.h"
#include "run/run_control.h"

namespace twin::run {

// How the process splits for runs of the experiment; null if they can share it.
std::function<int()> ForkOf(const ExperimentConfig& config);

// As RunInParallel() (parallel_runs.h), with child processes in place of threads. Each piece begins
// as a copy of this process at the time of the call, and leaves nothing behind but the bytes that
// run() returns; done() gets them. `fork` splits the process as fork() does.
//
// Warnings and notes of a piece reach `control` when it ends. A request to stop kills the running
// pieces. An exception of a piece is thrown here as an InputError, if it was one, or else as a
// PolicyFailure; a piece whose process was killed is a PolicyFailure, too. The children are killed
// if this thread ends. Throws std::system_error if no process can be made.
void RunInProcesses(std::size_t count, int jobs, RunControl& control,
                    const std::function<int()>& fork,
                    const std::function<std::string(std::size_t, RunControl& inner)>& run,
                    const std::function<void(std::size_t, const std::string& bytes)>& done);

}  // namespace twin::run
