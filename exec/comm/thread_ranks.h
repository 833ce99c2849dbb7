// Ranks as threads of one process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
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

// The other ranks of a group whose rank 0 is the caller.
class ThreadFollowers {
 public:
  // Calls body(end) on ranks 1.. of a new group, each on a thread. Where it throws, the group is
  // aborted with that as the reason.
  ThreadFollowers(std::int32_t ranks, Duration timeout, std::function<void(Communicator&)> body);
  // Waits until they have returned. Where an exception unwinds this object, the group is aborted.
  ~ThreadFollowers();
  ThreadFollowers(const ThreadFollowers&) = delete;
  ThreadFollowers& operator=(const ThreadFollowers&) = delete;

  // Rank 0's end.
  [[nodiscard]] Communicator& world() { return *ends_.front(); }

 private:
  std::vector<std::unique_ptr<Communicator>> ends_;
  std::function<void(Communicator&)> body_;
  int exceptions_;  // in flight when it was made
  std::vector<std::thread> threads_;
};

}  // namespace twin::exec
