// Threads for work that takes longer than a send: JSON of long prompts, tokenizers, the record.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <utility>  // before Asio: Boost 1.74 misses it in C++20
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

namespace twin::serve {

// Replaces boost::asio::thread_pool, which waits for ever if the system refuses one of its threads.
class WorkerPool {
 public:
  // Throws std::system_error if the system refuses a thread.
  explicit WorkerPool(std::size_t threads);
  ~WorkerPool() { Join(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Runs `work` on one of the threads, after earlier work has started. From any thread. `work` must
  // not throw.
  void Post(std::function<void()> work);
  // Waits until all work is done. Further calls have no effect.
  void Join();

 private:
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_{
      context_.get_executor()};
  std::vector<std::thread> threads_;
};

}  // namespace twin::serve
