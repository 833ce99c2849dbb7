// Waits for a device while checking that the other ranks have not failed.
#pragma once

#include <functional>
#include <string>

#include "core/time.h"
#include "exec/comm/communicator.h"
#include "exec/cuda/stream.h"

namespace twin::exec::cuda {

// Waits until `done` returns true. Polls without pause for 200 us, then sleeps between polls. Every
// 5 ms, checks the group of `host`, which throws if it has failed, and calls `check_health`. Throws
// CommunicationError "`operation`: not done within ..." after `limit`, unless `patience` is
// unbounded.
void WaitBeside(Communicator& host, const std::string& operation, Patience patience, Duration limit,
                const std::function<bool()>& done, const std::function<void()>& check_health);

}  // namespace twin::exec::cuda
