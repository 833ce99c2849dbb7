// Work on a thread of its own, which ends before its owner does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace twin::python {

// Used by one thread. An exception of the work is kept for Join().
class BackgroundWork {
 public:
  // Begins to call `work`. `stop` asks the work to end early, at any time.
  BackgroundWork(std::function<void()> work, std::function<void()> stop)
      : work_(std::move(work)), stop_(std::move(stop)), thread_([this] { Run(); }) {}

  // Asks work that nobody waited for to stop, and waits for its end.
  ~BackgroundWork() {
    if (!thread_.joinable()) return;
    stop_();
    thread_.join();
  }
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;

  // Waits for the end of the work, but not longer than `time`; true if it has ended.
  bool WaitFor(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return ended_signal_.wait_for(lock, time, [this] { return ended_; });
  }

  // Waits for the end of the work; its exception, or null. Call it once.
  std::exception_ptr Join() {
    thread_.join();
    return error_;
  }

 private:
  void Run() {
    try {
      work_();
    } catch (...) {
      error_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    ended_signal_.notify_all();
  }

  std::function<void()> work_;
  std::function<void()> stop_;
  std::mutex mutex_;
  std::condition_variable ended_signal_;
  bool ended_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // last: begins when everything else is there
};

}  // namespace twin::python
