// Ranks as threads of one process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "exec/comm/communicator.h"

namespace twin::exec {

// The ends of one group, rank by rank, for one thread each. Sums read the other ranks' arrays where
// they lie: an all-reduce costs two meetings of the threads. A meeting spins for some microseconds,
// then sleeps.
std::vector<std::unique_ptr<Communicator>> MakeThreadGroup(std::int32_t ranks,
                                                           Duration timeout = kRankTimeout);

// Calls body(end) on `ranks` threads, the caller being rank 0, and returns when all have returned.
// Where a body throws, the group is aborted; what was thrown first is thrown again.
void RunThreadRanks(std::int32_t ranks, Duration timeout,
                    const std::function<void(Communicator&)>& body);

}  // namespace twin::exec
