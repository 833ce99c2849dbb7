// A team of threads that share pieces of work with the thread that calls it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace twin::run {

// Its threads wait between two calls. For many short rounds of work: run/many/parallel_runs.h is
// for long pieces of work that report progress.
class ThreadTeam {
 public:
  // Starts `threads` - 1 threads, which work beside the calling thread. REQUIRES: threads >= 1.
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  // Calls first() on the calling thread and work(i) for each i below `count` on any thread, also on
  // the calling thread, and returns once all calls have ended. The calls see all earlier writes of
  // the caller, and the caller then sees their writes. Rethrows the exception of first(), otherwise
  // of the failed work with the lowest i. REQUIRES: one call at a time.
  void Run(std::size_t count, const std::function<void()>& first,
           const std::function<void(std::size_t)>& work);

 private:
  class Pieces;

  // The loop of each thread of others_.
  void Help();

  std::mutex mutex_;
  std::condition_variable changed_;
  Pieces* pieces_ = nullptr;  // work of the present call; nullptr: there is none
  std::uint64_t calls_ = 0;
  int helping_ = 0;  // threads that are at work on pieces_
  bool ended_ = false;
  std::vector<std::jthread> others_;  // the last member: its threads use all other members
};

}  // namespace twin::run
