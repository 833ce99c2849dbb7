// Ranks that are threads of one process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "exec/comm/communicator.h"

namespace twin::exec {

// Makes the ends of one group, in the order of ranks, each for one thread. Sums read the other
// ranks' arrays in place: an all-reduce costs two meetings of the threads. A meeting spins for some
// microseconds, then sleeps.
std::vector<std::unique_ptr<Communicator>> MakeThreadGroup(std::int32_t ranks,
                                                           Duration timeout = kRankTimeout);

// Calls body(end) on `ranks` threads, of which the caller is rank 0, and returns when all have
// returned. If a body throws, the group is aborted, and the first exception is thrown again.
void RunThreadRanks(std::int32_t ranks, Duration timeout,
                    const std::function<void(Communicator&)>& body);

// The other ranks of a group whose rank 0 is the caller.
class ThreadFollowers {
 public:
  // Calls body(end) on ranks 1 and up of a new group, each on its own thread. If the body throws,
  // the group is aborted with the exception's text as the reason.
  ThreadFollowers(std::int32_t ranks, Duration timeout, std::function<void(Communicator&)> body);
  // Waits until the bodies have returned. Aborts the group if an exception unwinds this object.
  ~ThreadFollowers();
  ThreadFollowers(const ThreadFollowers&) = delete;
  ThreadFollowers& operator=(const ThreadFollowers&) = delete;

  // Rank 0's end.
  [[nodiscard]] Communicator& world() { return *ends_.front(); }

 private:
  std::vector<std::unique_ptr<Communicator>> ends_;
  std::function<void(Communicator&)> body_;
  int exceptions_;  // in flight at construction
  std::vector<std::thread> threads_;
};

}  // namespace twin::exec
