// Waiting for a device beside other ranks, any of which may fail meanwhile.
#pragma once

#include <functional>
#include <string>

#include "core/time.h"
#include "exec/comm/communicator.h"
#include "exec/cuda/stream.h"

namespace twin::exec::cuda {

// Waits until `done` answers true: polls for some microseconds, then sleeps in between. Every few
// milliseconds asks `host` whether its group still works (which throws if not) and calls
// `check_health`. Throws CommunicationError "`operation`: not done within ..." behind `limit`,
// unless `patience` is unbounded.
void WaitBeside(Communicator& host, const std::string& operation, Patience patience, Duration limit,
                const std::function<bool()>& done, const std::function<void()>& check_health);

}  // namespace twin::exec::cuda
