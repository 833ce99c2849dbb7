#include "apps/python/reporting_control.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <exception>

#include "apps/python/background_work.h"

namespace twin::python {
namespace {

namespace nb = nanobind;

constexpr std::chrono::milliseconds kPollInterval{50};
constexpr int kPollsBeforeForce = 20;

void CheckSignalsAndReport(const ReportingControl& control, const nb::object& progress) {
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

nb::tuple ReportingControl::Reports() const { return nb::make_tuple(warnings_, notes_); }

void RunInBackground(ReportingControl& control, const nb::object& progress, bool runs_python,
                     const std::function<void()>& work) {
  std::atomic<unsigned long> python_id{0};  // of the thread of work that runs Python
  const auto work_with_python = [&] {
    // Keeps one state of the interpreter for all calls into it.
    const nb::gil_scoped_acquire state;
    python_id.store(PyThread_get_thread_ident());
    const nb::gil_scoped_release release;
    work();
  };
  std::exception_ptr raised;  // on this thread
  std::exception_ptr failed;  // in the work
  {
    const nb::gil_scoped_release release;
    BackgroundWork background(runs_python ? std::function<void()>(work_with_python) : work,
                              [&control] { control.Stop(); });
    int polls = 0;
    while (!background.WaitFor(kPollInterval)) {
      const nb::gil_scoped_acquire lock;
      if (raised) {
        if (!runs_python || ++polls % kPollsBeforeForce != 0) continue;
        PyThreadState_SetAsyncExc(python_id.load(), PyExc_KeyboardInterrupt);
        continue;
      }
      try {
        CheckSignalsAndReport(control, progress);
      } catch (...) {
        control.Stop();
        raised = std::current_exception();
      }
    }
    failed = background.Join();
  }
  if (raised) std::rethrow_exception(raised);
  if (failed) std::rethrow_exception(failed);
}

}  // namespace twin::python
