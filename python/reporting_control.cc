#include "python/reporting_control.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

namespace twin::python {
namespace {

namespace nb = nanobind;

constexpr std::chrono::milliseconds kPollInterval{50};
constexpr int kPollsBeforeForce = 20;

// The work on its thread, and what became of it.
class Beside {
 public:
  Beside(bool runs_python, const std::function<void()>& work)
      : thread_([this, runs_python, &work] { Run(runs_python, work); }) {}

  // Waits for the end of the work, but not long.
  bool WaitShortly() {
    const nb::gil_scoped_release release;
    std::unique_lock lock(mutex_);
    return ended_signal_.wait_for(lock, kPollInterval, [this] { return ended_; });
  }

  // The error of the work, if it had one.
  std::exception_ptr Join() {
    const nb::gil_scoped_release release;
    thread_.join();
    return error_;
  }

  // Raises KeyboardInterrupt in the Python code of the work.
  void Interrupt() { PyThreadState_SetAsyncExc(python_id_.load(), PyExc_KeyboardInterrupt); }

 private:
  void Run(bool runs_python, const std::function<void()>& work) {
    try {
      if (runs_python) {
        // Keeps one state of the interpreter for all calls into it.
        const nb::gil_scoped_acquire state;
        python_id_.store(PyThread_get_thread_ident());
        const nb::gil_scoped_release release;
        work();
      } else {
        work();
      }
    } catch (...) {
      error_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    ended_signal_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable ended_signal_;
  bool ended_ = false;
  std::exception_ptr error_;
  std::atomic<unsigned long> python_id_{0};
  std::thread thread_;  // last: begins when everything else is there
};

void ServePython(const ReportingControl& control, const nb::object& progress) {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  if (progress.is_none()) return;
  const ReportingControl::Progress now = control.progress();
  if (!now.what.empty()) progress(now.what.c_str(), now.done, now.total);
}

}  // namespace

void ReportingControl::OnProgress(std::string_view what, std::uint64_t done, std::uint64_t total) {
  const std::lock_guard lock(mutex_);
  progress_.what = what;
  progress_.done = done;
  progress_.total = total;
}

void ReportingControl::OnWarning(const std::string& text) {
  const std::lock_guard lock(mutex_);
  warnings_.push_back(text);
}

void ReportingControl::OnNote(const std::string& text) {
  const std::lock_guard lock(mutex_);
  notes_.push_back(text);
}

ReportingControl::Progress ReportingControl::progress() const {
  const std::lock_guard lock(mutex_);
  return progress_;
}

void RunBeside(ReportingControl& control, nb::object progress, bool runs_python,
               const std::function<void()>& work) {
  Beside beside(runs_python, work);
  std::optional<nb::python_error> interrupt;
  int polls = 0;
  while (!beside.WaitShortly()) {
    if (interrupt) {
      if (runs_python && ++polls % kPollsBeforeForce == 0) beside.Interrupt();
      continue;
    }
    try {
      ServePython(control, progress);
    } catch (nb::python_error& error) {
      control.Stop();
      interrupt.emplace(std::move(error));
    }
  }
  const std::exception_ptr error = beside.Join();
  if (interrupt) throw nb::python_error(std::move(*interrupt));
  if (error) std::rethrow_exception(error);
}

}  // namespace twin::python
