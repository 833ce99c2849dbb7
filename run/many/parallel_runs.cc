#include "run/many/parallel_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/check.h"

namespace twin::run {
namespace {

// A warning or a note of a piece of work.
struct Report {
  bool warning = false;
  std::string text;
};

// State that the threads share with the thread that called them, guarded by one mutex. Pieces of
// work have it as their control.
class WorkQueue final : public RunControl {
 public:
  WorkQueue(std::size_t count, const std::function<void(std::size_t, RunControl&)>& run)
      : count_(count), run_(run) {}

  void Stop() { stop_ = true; }
  [[nodiscard]] bool StopRequested() const override { return stop_; }
  void OnWarning(const std::string& text) override { Add({true, text}); }
  void OnNote(const std::string& text) override { Add({false, text}); }

  // Called before a thread begins that calls Work(); EndThread() if the system refuses the thread.
  void AddThread() {
    const std::lock_guard lock(mutex_);
    ++threads_;
  }
  void EndThread() {
    const std::lock_guard lock(mutex_);
    --threads_;
    changed_.notify_one();
  }

  // Does pieces of work until none is left.
  void Work() {
    for (std::size_t index = Next(); index < count_; index = Next()) Run(index);
    EndThread();
  }

  // Takes finished pieces and reports since the last call; waits up to 0.1 s for a piece. False
  // once all threads are done and nothing is left. Throws what a piece has thrown.
  bool Collect(std::vector<std::size_t>& finished, std::vector<Report>& reports) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(100),
                      [this] { return threads_ == 0 || !finished_.empty(); });
    finished = std::exchange(finished_, {});
    reports = std::exchange(reports_, {});
    const bool more = threads_ > 0 || !finished.empty() || !reports.empty();
    if (!more && error_) std::rethrow_exception(error_);
    return more;
  }

 private:
  // The next piece of work; `count` after the last one, or once all is to stop.
  std::size_t Next() {
    const std::lock_guard lock(mutex_);
    return next_ == count_ || StopRequested() ? count_ : next_++;
  }

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
  int threads_ = 0;  // that work
  std::exception_ptr error_;
};

void PassOn(const std::vector<Report>& reports, RunControl& control) {
  for (const Report& report : reports) {
    report.warning ? control.OnWarning(report.text) : control.OnNote(report.text);
  }
}

// As many threads as the system allows. Throws std::system_error if it allows none.
std::vector<std::jthread> StartThreads(int threads, WorkQueue& queue, RunControl& control) {
  std::vector<std::jthread> started;
  started.reserve(static_cast<std::size_t>(threads));
  try {
    for (int i = 0; i < threads; ++i) {
      queue.AddThread();
      started.emplace_back([&queue] { queue.Work(); });
    }
  } catch (const std::system_error& error) {
    queue.EndThread();
    if (started.empty()) throw;
    control.OnWarning(fmt::format(
        "{} threads work in place of {}: no further one is allowed (ulimit -u, ulimit -v): {}",
        started.size(), threads, error.code().message()));
  }
  return started;
}

}  // namespace

int DefaultJobs() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

void RunInParallel(std::size_t count, int jobs, RunControl& control,
                   const std::function<void(std::size_t, RunControl& inner)>& run,
                   const std::function<void(std::size_t)>& done) {
  const int wanted = jobs > 0 ? jobs : DefaultJobs();
  CHECK(wanted >= 1);
  const auto threads = static_cast<int>(std::min(count, static_cast<std::size_t>(wanted)));
  WorkQueue queue(count, run);
  const std::vector<std::jthread> started = StartThreads(threads, queue, control);
  std::vector<std::size_t> finished;
  std::vector<Report> reports;
  std::exception_ptr error;
  while (queue.Collect(finished, reports)) {
    if (control.StopRequested()) queue.Stop();
    if (error) continue;
    try {
      PassOn(reports, control);
      for (const std::size_t index : finished) done(index);
    } catch (...) {
      error = std::current_exception();
      queue.Stop();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace twin::run
