#include "lab/study/parallel_runs.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_pipeline.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
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

// A warning or a note of a piece of work.
struct Report {
  bool warning = false;
  std::string text;
};

// What the threads share with the thread that called them, behind one mutex. Pieces of work have it
// as their control.
class WorkQueue final : public RunControl {
 public:
  WorkQueue(std::size_t count, const std::function<void(std::size_t, RunControl&)>& run)
      : count_(count), run_(run) {}

  void Stop() { stop_ = true; }
  [[nodiscard]] bool StopRequested() const override { return stop_; }
  void OnWarning(const std::string& text) override { Add({true, text}); }
  void OnNote(const std::string& text) override { Add({false, text}); }

  // Orders what the caller wrote before what the threads read behind the mutex, also for a tool
  // that does not see how oneTBB hands tasks over.
  void Publish() { const std::lock_guard lock(mutex_); }

  // The next piece of work; `count` after the last one, or once all is to stop.
  std::size_t Next() {
    const std::lock_guard lock(mutex_);
    return next_ == count_ || StopRequested() ? count_ : next_++;
  }
  [[nodiscard]] std::size_t count() const { return count_; }

  void Run(std::size_t index) {
    std::exception_ptr error;
    try {
      run_(index, *this);
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    if (error) {
      Stop();
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

  // What finished since the last call, and what was reported; waits up to 0.1 s for a piece. False
  // once all threads are done and nothing is left. Throws what a piece has thrown.
  bool Collect(std::vector<std::size_t>& finished, std::vector<Report>& reports) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(100),
                      [this] { return ended_ || !finished_.empty(); });
    finished = std::exchange(finished_, {});
    reports = std::exchange(reports_, {});
    if (ended_ && finished.empty() && reports.empty() && error_) std::rethrow_exception(error_);
    return !ended_ || !finished.empty() || !reports.empty();
  }

 private:
  void Add(Report report) {
    const std::lock_guard lock(mutex_);
    reports_.push_back(std::move(report));
  }

  const std::size_t count_;
  const std::function<void(std::size_t, RunControl&)> run_;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_ = 0;
  std::vector<std::size_t> finished_;
  std::vector<Report> reports_;
  bool ended_ = false;
  std::exception_ptr error_;
};

// Runs in the arena.
void RunAll(WorkQueue& queue, std::size_t jobs) {
  const auto next = [&queue](tbb::flow_control& control) {
    const std::size_t index = queue.Next();
    if (index == queue.count()) control.stop();
    return index;
  };
  const auto run = [&queue](std::size_t index) { queue.Run(index); };
  tbb::parallel_pipeline(
      jobs, tbb::make_filter<void, std::size_t>(tbb::filter_mode::serial_in_order, next) &
                tbb::make_filter<std::size_t, void>(tbb::filter_mode::parallel, run));
  queue.End();
}

void PassOn(const std::vector<Report>& reports, RunControl& control) {
  for (const Report& report : reports) {
    report.warning ? control.OnWarning(report.text) : control.OnNote(report.text);
  }
}

// Allows `threads` besides the calling one, which oneTBB counts too.
std::size_t ParallelismFor(std::size_t threads) {
  constexpr auto kLimit = tbb::global_control::max_allowed_parallelism;
  return std::max(tbb::global_control::active_value(kLimit), threads + 1);
}

}  // namespace

int DefaultJobs() { return tbb::info::default_concurrency(); }

void RunInParallel(std::size_t count, int jobs, RunControl& control,
                   const std::function<void(std::size_t, RunControl& inner)>& run,
                   const std::function<void(std::size_t)>& done) {
  const int threads = jobs > 0 ? jobs : DefaultJobs();
  CHECK(threads >= 1);
  const tbb::global_control allowed(tbb::global_control::max_allowed_parallelism,
                                    ParallelismFor(static_cast<std::size_t>(threads)));
  tbb::task_arena arena(threads, 0);
  // Shared, because the last task may still be returning when the last piece is collected.
  const auto queue = std::make_shared<WorkQueue>(count, run);
  queue->Publish();
  arena.enqueue([queue, threads] { RunAll(*queue, static_cast<std::size_t>(threads)); });
  std::vector<std::size_t> finished;
  std::vector<Report> reports;
  std::exception_ptr error;
  while (queue->Collect(finished, reports)) {
    if (control.StopRequested()) queue->Stop();
    if (error) continue;
    try {
      PassOn(reports, control);
      for (const std::size_t index : finished) done(index);
    } catch (...) {
      error = std::current_exception();
      queue->Stop();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace twin::lab
