// Threads that do pieces of work together with the thread that calls them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace twin::run {

// Threads that wait between two calls. For many short rounds: study/parallel_runs.h is for long
// pieces of work that report what they do.
class ThreadTeam {
 public:
  // The calling thread and `threads` - 1 others. REQUIRES: threads >= 1.
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  // Calls first() on the calling thread and work(i) for each i below `count` on any thread, also on
  // the calling one, and returns once all have ended. What the caller wrote before is visible to
  // all of them, what they wrote to the caller. Throws what first() has thrown, otherwise what the
  // work with the lowest i that failed has thrown. REQUIRES: one call at a time.
  void Run(std::size_t count, const std::function<void()>& first,
           const std::function<void(std::size_t)>& work);

 private:
  class Pieces;

  // What each of the other threads does.
  void Help();

  std::mutex mutex_;
  std::condition_variable changed_;
  Pieces* pieces_ = nullptr;  // of the present call; nullptr: there is no work
  std::uint64_t calls_ = 0;
  int helping_ = 0;  // threads that are at work on pieces_
  bool ended_ = false;
  std::vector<std::jthread> others_;  // the last member: they use all the rest
};

}  // namespace twin::run
