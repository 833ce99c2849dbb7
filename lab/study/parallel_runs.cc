#include "lab/study/parallel_runs.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_pipeline.h>
#include <oneapi/tbb/task_arena.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/check.h"

#if defined(__SANITIZE_THREAD__)
// oneTBB comes without instrumentation, so ThreadSanitizer does not see that it hands tasks over
// in order. Accesses of its own headers are left out; ours are not.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "race_top:tbb::\n"; }
#endif

namespace twin::lab {
namespace {

namespace tbb = oneapi::tbb;

// Ends running pieces of work early.
class StopFlag final : public RunControl {
 public:
  void Stop() { stop_ = true; }
  [[nodiscard]] bool StopRequested() const override { return stop_; }

 private:
  std::atomic<bool> stop_ = false;
};

// What the threads share with the thread that called them, behind one mutex.
class Exchange {
 public:
  Exchange(std::size_t count, const std::function<void(std::size_t, RunControl&)>& run)
      : count_(count), run_(run) {}

  // Orders what the caller wrote before what the threads read behind the mutex, also for a tool
  // that does not see how oneTBB hands tasks over.
  void Publish() { const std::lock_guard lock(mutex_); }

  // The next piece of work; `count` after the last one, or once all is to stop.
  std::size_t Next() {
    const std::lock_guard lock(mutex_);
    return next_ == count_ || flag_.StopRequested() ? count_ : next_++;
  }
  [[nodiscard]] std::size_t count() const { return count_; }

  void Run(std::size_t index) {
    std::exception_ptr error;
    try {
      run_(index, flag_);
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    if (error) {
      flag_.Stop();
      if (!error_) error_ = error;
    } else {
      finished_.push_back(index);
    }
    changed_.notify_one();
  }

  void End() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_one();
  }

  // Pieces that finished since the last call; waits up to 0.1 s for one. False once all threads
  // are done and nothing is left. Throws what a piece has thrown.
  bool Collect(std::vector<std::size_t>& finished) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(100),
                      [this] { return ended_ || !finished_.empty(); });
    finished = std::exchange(finished_, {});
    if (ended_ && finished.empty() && error_) std::rethrow_exception(error_);
    return !ended_ || !finished.empty();
  }

  void Stop() { flag_.Stop(); }

 private:
  const std::size_t count_;
  const std::function<void(std::size_t, RunControl&)> run_;
  StopFlag flag_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_ = 0;
  std::vector<std::size_t> finished_;
  bool ended_ = false;
  std::exception_ptr error_;
};

// Runs in the arena.
void RunAll(Exchange& exchange, std::size_t jobs) {
  const auto next = [&exchange](tbb::flow_control& control) {
    const std::size_t index = exchange.Next();
    if (index == exchange.count()) control.stop();
    return index;
  };
  const auto run = [&exchange](std::size_t index) { exchange.Run(index); };
  tbb::parallel_pipeline(
      jobs, tbb::make_filter<void, std::size_t>(tbb::filter_mode::serial_in_order, next) &
                tbb::make_filter<std::size_t, void>(tbb::filter_mode::parallel, run));
  exchange.End();
}

}  // namespace

int DefaultJobs() { return tbb::info::default_concurrency(); }

void RunInParallel(std::size_t count, int jobs, const RunControl& control,
                   const std::function<void(std::size_t, RunControl&)>& run,
                   const std::function<void(std::size_t)>& done) {
  const int threads = jobs > 0 ? jobs : DefaultJobs();
  CHECK(threads >= 1);
  // The calling thread waits and collects; it counts as one of oneTBB's all the same.
  const tbb::global_control allowed(tbb::global_control::max_allowed_parallelism,
                                    static_cast<std::size_t>(threads) + 1);
  tbb::task_arena arena(threads, 0);
  // Shared, because the last task may still be returning when the last piece is collected.
  const auto exchange = std::make_shared<Exchange>(count, run);
  exchange->Publish();
  arena.enqueue([exchange, threads] { RunAll(*exchange, static_cast<std::size_t>(threads)); });
  std::vector<std::size_t> finished;
  std::exception_ptr error;
  while (exchange->Collect(finished)) {
    if (control.StopRequested()) exchange->Stop();
    if (error) continue;
    try {
      for (const std::size_t index : finished) done(index);
    } catch (...) {
      error = std::current_exception();
      exchange->Stop();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace twin::lab
