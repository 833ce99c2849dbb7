// The system calls that a policy may make.
#pragma once

namespace twin::run {

// Limits this process to the calls that a computation in C++ or Python needs: memory, clocks,
// reading of files, its own pipes. Calls that libraries try without needing them fail, such as
// opening a file for writing. Any other call ends in `refused` with its name, in a signal handler.
// Cannot be undone. False where the kernel or the architecture has no such filter.
bool FilterSystemCalls(void (*refused)(const char* call));

}  // namespace twin::run
